// A training that is resumed is what it was: each field that describes it, changed alone, is refused by its name, and
// so is one that only the file or only the training has.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>

namespace headroom::training {
namespace described_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Json = nlohmann::json;

class Described final : public test::OneLayerTask {
  public:
    Described(Parameters& parameters, std::int64_t, std::string says)
        : test::OneLayerTask(parameters), says_(std::move(says)) {}
    std::string describe() const override { return says_; }

  private:
    std::string says_;
};

/// What a training may be told otherwise.
struct Told {
    TrainerOptions options{
        .accumulate = 2, .steps = 4, .average = 0.5, .autocast = Dtype::bf16, .handle_signals = false, .print = false};
    std::uint64_t seed = 5;
    Json says{{"model", {{"width", 128}, {"name", "line"}, {"bias", true}, {"sizes", {{"kernel", 3}}}}},
              {"data", {{"crop", 0.5}, {"values", {0, 255}}}},
              {"format", 1}};
};

class DescribedTraining : public ::testing::Test {
  protected:
    /// Begins a training as `begun` is told, and resumes it as `resumed` is.
    void resume(const Told& begun, Told resumed) const {
        {
            Context context = Context::cpu({.threads = 1, .seed = begun.seed});
            Session(context, task<Described>(begun.says.dump()), begun.options).save(file());
        }
        resumed.options.resume = file();
        Context context = Context::cpu({.threads = 1, .seed = resumed.seed});
        Session(context, task<Described>(resumed.says.dump()), resumed.options).step();
    }
    std::string file() const { return folder_.path() / "saved"; }

  private:
    test::ScratchFolder folder_;
};

struct Change {
    std::function<void(Told&)> change;
    std::string line;
};

TEST_F(DescribedTraining, EachFieldIsRefusedByItsName) {
    const std::map<std::string, Change> changes{
        {"/training/seed", {[](Told& t) { t.seed = 6; }, "seed 5, not 6"}},
        {"/training/accumulate", {[](Told& t) { t.options.accumulate = 3; }, "accumulate 2, not 3"}},
        {"/training/dtype", {[](Told& t) { t.options.autocast = Dtype::f16; }, "dtype \"bf16\", not \"f16\""}},
        {"/training/average", {[](Told& t) { t.options.average = 0.25; }, "average 0.5, not 0.25"}},
        {"/model/width", {[](Told& t) { t.says["model"]["width"] = 64; }, "width 128, not 64"}},
        {"/model/name", {[](Told& t) { t.says["model"]["name"] = "curve"; }, "name \"line\", not \"curve\""}},
        {"/model/bias", {[](Told& t) { t.says["model"]["bias"] = false; }, "bias true, not false"}},
        {"/model/sizes/kernel", {[](Told& t) { t.says["model"]["sizes"]["kernel"] = 5; }, "kernel 3, not 5"}},
        {"/data/crop", {[](Told& t) { t.says["data"]["crop"] = 1; }, "crop 0.5, not 1"}},
        {"/data/values/0", {[](Told& t) { t.says["data"]["values"][0] = 1; }, "data differs from the data given now"}},
        {"/data/values/1",
         {[](Told& t) { t.says["data"]["values"].erase(1); }, "data differs from the data given now"}},
        {"/format", {[](Told& t) { t.says["format"] = 2; }, "format 1, not 2"}}};
    resume({}, {});
    const std::string saved = files::SafetensorsFile(file()).metadata().at("training");
    std::set<std::string> fields, known;
    const Json flat = Json::parse(saved).flatten();
    for (const auto& [name, value] : flat.items()) fields.insert(name);
    for (const auto& [name, change] : changes) {
        SCOPED_TRACE(name);
        known.insert(name);
        Told told;
        change.change(told);
        EXPECT_THAT([&] { resume({}, told); },
                    ThrowsMessage<Error>(AllOf(HasSubstr(".resume " + file()), HasSubstr(change.line))));
        EXPECT_THROW(resume(told, {}), Error) << "the other way round";
    }
    EXPECT_EQ(fields, known) << "each field that is saved has a change here";
}

TEST_F(DescribedTraining, AFieldThatOnlyOneOfThemHasIsRefused) {
    const std::map<std::string, std::function<void(Told&)>> changes{
        {"average 0.5, not none", [](Told& t) { t.options.average = 0; }},
        {"dtype \"bf16\", not \"f32\"", [](Told& t) { t.options.autocast.reset(); }},
        {"width 128, not none", [](Told& t) { t.says["model"].erase("width"); }},
        {"crop 0.5, not none", [](Told& t) { t.says.erase("data"); }},
        {"kernel 3, not none", [](Told& t) { t.says["model"].erase("sizes"); }},
        {"format 1, not none", [](Told& t) { t.says.erase("format"); }},
        {"flips none, not \"both\"", [](Told& t) { t.says["data"]["flips"] = "both"; }},
        {"tail none, not 1", [](Told& t) {
             t.says["more"] = {{"tail", 1}};
         }}};
    for (const auto& [line, change] : changes) {
        Told told;
        change(told);
        EXPECT_THAT([&] { resume({}, told); }, ThrowsMessage<Error>(HasSubstr(line)));
        EXPECT_THROW(resume(told, {}), Error) << line << ", the other way round";
    }
}

/// What may change: it decides nothing about the steps before, and later ones go by it.
TEST_F(DescribedTraining, WhatMayChangeMay) {
    const std::vector<std::function<void(Told&)>> changes{
        [](Told& t) { t.options.steps = 9; }, [](Told& t) { t.options.schedule.peak = 0.5; },
        [](Told& t) { t.options.clip = 1; }, [](Told& t) { t.options.optimizer = adamw({.weight_decay = 0.5}); },
        [](Told& t) { t.options.validate_every = 2; }};
    for (const auto& change : changes) {
        Told told;
        change(told);
        resume({}, told);
    }
}

TEST_F(DescribedTraining, AnotherOptimizerIsRefused) {
    for (const MakeOptimizer& other : {sgd({.momentum = 0.9}), sgd({.momentum = 0})}) {
        Told told;
        told.options.optimizer = other;
        EXPECT_THROW(resume({}, told), Error);
        EXPECT_THROW(resume(told, {}), Error);
    }
}

}  // namespace described_test
}  // namespace headroom::training
