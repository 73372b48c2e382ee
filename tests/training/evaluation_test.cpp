// Validations and the task's end see the model as it would be used: averaged weights, no dropout, the training's dtype.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace evaluation_test {

struct Seen {
    std::vector<float> weights;
    bool training;
    std::optional<Dtype> autocast;
};

class Looking final : public test::OneLayerTask {
  public:
    Looking(Parameters& parameters, std::int64_t, std::map<std::string, Seen>* seen)
        : test::OneLayerTask(parameters), parameters_(parameters), seen_(seen) {}
    Validation validate(const ProgressCallback&) override {
        look("validation");
        return {};
    }
    void end() override { look("end"); }

  private:
    void look(const std::string& when) {
        if (context_.dry()) return;
        (*seen_)[when] = {parameters_.at("weight").tensor.to_vector<float>(), parameters_.training(),
                          context_.autocast()};
    }

    Parameters& parameters_;
    std::map<std::string, Seen>* seen_;
};

std::vector<float> read(const std::string& path, const std::string& name) {
    Context context = Context::cpu({.threads = 1});
    const files::SafetensorsFile file(path);
    const files::SafetensorsEntry& entry = *file.find(name);
    const Array array = context.exec().empty(entry.shape, entry.dtype);
    file.copy_to(entry, context, array);
    return context.from_array(array).to_vector<float>();
}

TEST(Evaluation, OfAValidationAndOfTheEndIsOfTheAveragedWeights) {
    const test::ScratchFolder folder;
    for (const double average : {0.0, 0.5}) {
        std::map<std::string, Seen> seen;
        const TrainerOptions options{.steps = 3,
                                     .optimizer = sgd({.momentum = 0}),
                                     .schedule = {.decay = optim::Decay::constant, .peak = 0.1},
                                     .average = average,
                                     .autocast = Dtype::bf16,
                                     .save = folder.path() / "saved",
                                     .handle_signals = false,
                                     .print = false};
        Context context = Context::cpu({.threads = 1, .seed = 5});
        EXPECT_TRUE(Trainer(task<Looking>(&seen), options).run(context).complete);
        const std::vector<float> weights = read(options.save, "weight");
        const std::vector<float> expected = average > 0 ? read(options.save, "average.weight") : weights;
        ASSERT_EQ(weights != expected, average > 0);
        ASSERT_EQ(seen.size(), 2u);
        for (const auto& [when, what] : seen) {
            EXPECT_EQ(what.weights, expected) << when;
            EXPECT_FALSE(what.training) << when;
            EXPECT_EQ(what.autocast, Dtype::bf16) << when;
        }
    }
}

}  // namespace evaluation_test
}  // namespace headroom::training
