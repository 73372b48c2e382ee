// A training whose loss does not reach its parameters is refused by its rehearsal: it would step without learning.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/memory/error.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace reach_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Computes with a model of its own, whose parameters no optimizer knows.
class Elsewhere final : public test::OneLayerTask {
  public:
    Elsewhere(Parameters& parameters, std::int64_t)
        : test::OneLayerTask(parameters),
          parameters_(parameters.context(), {.name = "elsewhere"}),
          layer_(nn::Path(parameters_), 2, 1) {}
    Loss loss(const Batch& batch) override { return Loss(sum(layer_(batch[0])), 1); }

  private:
    Parameters parameters_;
    nn::Linear layer_;
};

class Frozen final : public test::OneLayerTask {
  public:
    Frozen(Parameters& parameters, std::int64_t) : test::OneLayerTask(parameters) { parameters.freeze("**"); }
};

TEST(Reach, ALossThatReachesNoneOfTheParametersIsRefused) {
    const TrainerOptions options{.steps = 3, .handle_signals = false, .print = false};
    Context context = Context::cpu({.threads = 1});
    for (const bool rehearses : {true, false}) {
        const auto expect_refused = [&](const MakeTask& task, const char* text) {
            Trainer trainer(task, options);
            EXPECT_THAT([&] { rehearses ? void(trainer.rehearse(context.profile())) : void(trainer.run(context)); },
                        ThrowsMessage<Error>(HasSubstr(text)));
        };
        expect_refused(task<Elsewhere>(),
                       "accumulator: the losses of this step depend on none of the trained parameters");
        expect_refused(task<Frozen>(), "accumulator: the loss depends on no trained parameter (all frozen");
    }
}

}  // namespace reach_test
}  // namespace headroom::training
