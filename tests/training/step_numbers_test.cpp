// What a task is told of the training's progress: the number of steps that are done.
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/training/one_layer_task.hpp>
#include <headroom/training/session.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace step_numbers_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Numbers = std::vector<std::int64_t>;

/// Each step has a loss of its own; that of `broken` is no number.
class Progressive final : public test::OneLayerTask {
  public:
    Progressive(Parameters& parameters, std::int64_t, Numbers* told, std::int64_t broken)
        : test::OneLayerTask(parameters), told_(told), broken_(broken) {}
    void begin_step(std::int64_t steps_done) override {
        step_ = steps_done;
        if (!context_.dry()) told_->push_back(steps_done);
    }
    Loss loss(const Batch& batch) override {
        const Tensor sum = test::OneLayerTask::loss(batch).sum();
        return Loss(step_ == broken_ ? log(square(sum) * -1.0) : square(sum) * static_cast<double>(1 + step_), 1);
    }

  private:
    Numbers* told_;
    std::int64_t broken_, step_ = -1;
};

Numbers count(std::int64_t first, std::int64_t end) {
    Numbers numbers(static_cast<std::size_t>(end - first));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

TEST(StepNumbers, AreToldOnceAStepWhateverItsMicroBatches) {
    for (const std::int64_t accumulate : {1, 3}) {
        Numbers told;
        Context context = Context::cpu({.threads = 1});
        Session session(context, task<Progressive>(&told, std::int64_t{-1}), {.accumulate = accumulate, .steps = 4});
        while (session.steps_done() < session.steps()) session.step();
        EXPECT_EQ(told, count(0, 4));
    }
}

TEST(StepNumbers, GoOnInAResumedTrainingWhichHasTheBitsOfAWholeOne) {
    const test::ScratchFolder folder;
    Numbers told;
    const auto train = [&](const TrainerOptions& options) {
        told.clear();
        Context context = Context::cpu({.threads = 1, .seed = 5});
        return Trainer(task<Progressive>(&told, std::int64_t{-1}), options).run(context).state_sha256;
    };
    TrainerOptions options{.accumulate = 2, .steps = 7, .handle_signals = false, .print = false};
    const std::string whole = train(options);
    EXPECT_EQ(told, count(0, 7));
    options.stop_after = 3;
    options.save = folder.path() / "part";
    train(options);
    EXPECT_EQ(told, count(0, 3));
    options.stop_after = -1;
    options.resume = std::exchange(options.save, "");
    EXPECT_EQ(train(options), whole);
    EXPECT_EQ(told, count(3, 7));
}

TEST(StepNumbers, OfAStepThatIsComputedAgainToExplainItAreItsOwn) {
    Numbers told;
    Context context = Context::cpu({.threads = 1});
    Session session(context, task<Progressive>(&told, std::int64_t{1}), {.steps = 9});
    for (int step = 0; step < 4; ++step) session.step();
    EXPECT_THAT([&] { session.results(); },
                ThrowsMessage<Error>(HasSubstr("step 2: the loss is not finite; every module's output was finite, but "
                                               "the loss was not")));
    EXPECT_EQ(told.back(), 1);
}

}  // namespace step_numbers_test
}  // namespace headroom::training
