// memory_speed and what_fits for models of somebody else's program: what is wrong with them is one line, and a task
// whose data is small is compared as far as that goes. tests/consumer has such programs outside of the tree.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/data/dataset.hpp>
#include <headroom/examples/compare/memory_speed.hpp>
#include <headroom/examples/compare/what_fits.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/training/data_task.hpp>

namespace headroom {
namespace own_models_test {

using models::Model;
using Models = std::vector<Model>;
using nlohmann::json;
using ::testing::HasSubstr;

models::Step step(Parameters& parameters, const models::Sizes& sizes) {
    const auto layer = std::make_shared<nn::Linear>(nn::Path(parameters), 2, 2);
    const Tensor x = randn(parameters.context(), {sizes.batch, 2});
    const Tensor labels = randint(parameters.context(), 0, 2, {sizes.batch});
    return {{x, labels},
            [layer](const std::vector<Tensor>& batch) { return cross_entropy((*layer)(batch[0]), batch[1]); }};
}

Model line(const std::string& name = "line") { return {.name = name, .make = step}; }

struct Outcome {
    int code;
    std::string output, error;
};

template <class Program>
Outcome outcome(Program program, const Models& models, std::vector<std::string> words) {
    words.insert(words.begin(), "somewhere/mine");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = program(static_cast<int>(words.size()), arguments.data(), models, "");
    std::string output = ::testing::internal::GetCapturedStdout();
    return {code, std::move(output), ::testing::internal::GetCapturedStderr()};
}

Outcome speed(const Models& models, std::vector<std::string> words) {
    return outcome(compare::memory_speed, models, std::move(words));
}
Outcome fits(const Models& models, std::vector<std::string> words) {
    return outcome(compare::what_fits, models, std::move(words));
}

const std::vector<std::string> kPredicted{"--model", "line", "--device", "dry", "--techniques", "baseline"};

/// Both programs refuse these models by that line, whatever the command line says.
void expect_refused(const Models& models, const std::string& line) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--help"}, kPredicted}) {
        for (const Outcome& found : {speed(models, words), fits(models, words)}) {
            EXPECT_EQ(found.code, 1);
            EXPECT_EQ(found.error, "mine: " + line + "\n");
            EXPECT_EQ(found.output, "");
        }
    }
}

TEST(OwnModels, AreAtLeastOneAndHaveNamesThatAFlagCanSay) {
    expect_refused({}, "there is no model to compare; pass at least one");
    expect_refused({line(), line("other"), line()}, "two models are called line; give each a name of its own");
    for (const char* name : {"", "--json", "-h", "one,two", "all"}) {
        expect_refused({line(name)},
                       std::string("--model can't take the model name \"") + name +
                           "\"; use one that is not empty, does not begin with -, has no comma and is not "
                           "all");
    }
}

TEST(OwnModels, HaveOneFunctionThatMakesTheirTraining) {
    Model model = line();
    model.make = {};
    expect_refused({model}, "the model line has neither make nor task; set exactly one of them");
    model = line();
    model.task = [](Parameters&, std::int64_t) { return nullptr; };
    expect_refused({model}, "the model line has both make and task; set exactly one of them");
    model.make = {};
    model.chunks_logits = true;
    expect_refused({model}, "the model line has chunks_logits, which a task can't show; leave it out");
}

TEST(OwnModels, BeginTheirWaysWithKeepingAll) {
    const std::string wrong =
        "the ways of the model line do not begin with one that keeps all; put nn::RecomputeWay{} before the others";
    Model model = line();
    for (const nn::RecomputeWays& ways : {nn::RecomputeWays{}, {{"cheap", "norms", {{"", recompute_cheap()}}}}}) {
        model.ways = ways;
        expect_refused({model}, wrong);
    }
    model.ways = {{}, {"cheap", "norms", {{"", recompute_cheap()}}}, {"cheap", "all", {{"", recompute_all()}}}};
    expect_refused({model}, "two ways of the model line are called cheap; give each a name of its own");
    model.ways = {{}, {"plan", "all", {{"", recompute_all()}}}};
    expect_refused(
        {model},
        "a way of the model line is called plan, which is the name of plans for a budget; give it another name");
}

TEST(OwnModels, ReturnWhatTheyPromise) {
    const auto expect_error = [](const Model& model, const std::vector<std::string>& more, const std::string& line) {
        std::vector<std::string> words = kPredicted;
        words.insert(words.end(), more.begin(), more.end());
        const Outcome found = speed({model}, words);
        EXPECT_EQ(found.code, 1);
        EXPECT_EQ(found.error, "mine: " + line + "\n");
    };
    Model model = line();
    model.make = [](Parameters&, const models::Sizes&) { return models::Step(); };
    expect_error(model, {}, "the model line made a step without loss; set Step::loss");
    model = line();
    model.chunks_logits = true;
    expect_error(model, {"--techniques", "chunked_loss"},
                 "the model line made a step without loss_of_whole_logits; set Step::loss_of_whole_logits");
    model = line();
    model.ways = {{}, {"layers", "the gates", {}}};
    expect_error(model, {}, "the model line made a step without checkpoint; set Step::checkpoint");
    model = {.name = "line", .task = [](Parameters&, std::int64_t) { return nullptr; }};
    expect_error(model, {}, "the function that makes the task returned null; return a std::make_unique of your task");
}

TEST(OwnModels, HaveNoPeerInPyTorch) {
    const Outcome found = speed({line()}, {"--model", "line", "--peers"});
    EXPECT_EQ(found.code, 2);
    EXPECT_EQ(found.error,
              "mine: --peers: there is no PyTorch training of line; leave it out (--help lists the options)\n");
}

TEST(OwnModels, SayWhatTheirSamplesAre) {
    Model model = line();
    EXPECT_EQ(model.inputs({.batch = 3}), "3 samples");
    model.samples = models::Samples::sequences;
    EXPECT_EQ(model.inputs({.batch = 3, .block = 5}), "3 sequences of 5 tokens");
    model.samples = models::Samples::images;
    EXPECT_EQ(model.inputs({.batch = 3, .height = 5, .width = 7}), "3 images of 5 x 7");
    for (const char* size : {"block", "height"}) {
        const Outcome found = fits({line()}, {"--model", "line", "--gpu-memory", "1GB", "--largest", size});
        EXPECT_EQ(found.code, 2);
        EXPECT_EQ(found.error, std::string("mine: --largest ") + size +
                                   " is not for line, which reads samples (--help lists the options)\n");
    }
}

using Points = data::MemoryDataset<std::int32_t>;

class OfPoints final : public training::DataTask<Points> {
  public:
    OfPoints(Parameters& parameters, std::int64_t batch, const Points& points)
        : DataTask(parameters, training::shuffled(points, points, batch)), layer_(nn::Path(parameters), 2, 2) {}
    Loss loss(const Batch& batch) override { return cross_entropy(layer_(batch[0]), batch[1]); }

  private:
    nn::Linear layer_;
};

/// On as many samples as that.
Model of_points(std::int64_t count) {
    return {.name = "points",
            .task = training::task<OfPoints>(Points(std::vector<float>(static_cast<std::size_t>(2 * count)), {2},
                                                    std::vector<std::int32_t>(static_cast<std::size_t>(count))))};
}

TEST(OwnModels, OfATaskAreComparedUpToTheSamplesOfItsData) {
    const test::ScratchFolder folder;
    const std::string file = folder.path() / "rows.json";
    const Outcome compared = speed({of_points(100)}, {"--model", "points", "--effective-batch", "32", "--device", "dry",
                                                      "--gpu-memory", "8GB", "--json", file});
    EXPECT_EQ(compared.error, "");
    ASSERT_EQ(compared.code, 0);
    json found = json::parse(std::ifstream(file));
    EXPECT_EQ(found.at("model"), "points");
    EXPECT_EQ(found.at("inputs"), "32 samples");
    EXPECT_EQ(found.at("samples"), "samples");
    EXPECT_GT(found.at("rows").size(), 5U);
    for (const json& row : found.at("rows")) EXPECT_EQ(row.at("largest_batch"), 100) << row;
    std::vector<std::int64_t> larger;
    for (const json& one : found.at("larger")) larger.push_back(one.at("batch"));
    EXPECT_EQ(larger, (std::vector<std::int64_t>{32, 64}));

    const Outcome fitting = fits({of_points(100)}, {"--model", "points", "--batch", "32", "--gpu-memory", "8GB",
                                                    "--largest", "batch", "--json", file});
    EXPECT_EQ(fitting.error, "");
    ASSERT_EQ(fitting.code, 0);
    found = json::parse(std::ifstream(file));
    ASSERT_EQ(found.at("rows").size(), 2U);
    for (const json& row : found.at("rows")) EXPECT_EQ(row.at("largest"), 100) << row;

    const Outcome refused = fits({of_points(100)}, {"--model", "points", "--batch", "128", "--gpu-memory", "8GB"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.error, HasSubstr("a batch of 128 needs more than the 100 samples"));
}

TEST(OwnModels, StandBesidePublishedOnes) {
    Models models = models::all();
    models.push_back(line());
    const Outcome found = fits(models, {"--model", "line,mlp", "--batch", "4", "--gpu-memory", "8GB"});
    ASSERT_EQ(found.code, 0) << found.error;
    EXPECT_THAT(found.output, HasSubstr("\nline: 4 samples in f32, adamw\n"));
    EXPECT_THAT(found.output, HasSubstr("\nmlp: 4 images of 28 x 28 in f32, adamw\n"));
}

}  // namespace own_models_test
}  // namespace headroom
