// Batches that grow behind the steps that a rehearsal takes: what a training says of memory that it could not predict.
#include <string>

#include <gmock/gmock.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/losses.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/training/endless_task.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace batch_shapes_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kWidth = 256, kShort = 512, kLong = 16 * kShort, kFirstSteps = 10;
constexpr std::size_t kLimit = std::size_t{24} << 20;

/// Its batches are short at first.
class Growing final : public EndlessTask {
  public:
    Growing(Parameters& parameters, std::int64_t /*batch*/)
        : context_(parameters.context()), model_(nn::Path(parameters), kWidth, kWidth) {}
    void begin_step(std::int64_t steps_done) override { rows_ = steps_done < kFirstSteps ? kShort : kLong; }
    Batch batch() override { return {randn(context_, {rows_, kWidth})}; }
    Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), zeros_like(batch[0])); }

  private:
    Context& context_;
    nn::Linear model_;
    std::int64_t rows_ = kShort;
};

TrainerOptions steps_of(std::int64_t steps) { return {.batch = 1, .steps = steps}; }

std::string refusal_of(const TrainerOptions& options, std::size_t limit) {
    Context context = Context::cpu({.threads = 1, .memory_limit = limit, .seed = 1});
    try {
        Trainer(task<Growing>(), options).run(context);
    } catch (const OutOfMemory& error) {
        return error.what();
    }
    return "nothing was refused";
}

TEST(BatchShapes, APeakBeyondThePredictedOneIsExplained) {
    const auto printed = [](std::int64_t steps) {
        Context context = Context::cpu({.threads = 1, .seed = 1});
        ::testing::internal::CaptureStdout();
        const Report report = Trainer(task<Growing>(), steps_of(steps)).run(context);
        std::string text = ::testing::internal::GetCapturedStdout();
        EXPECT_EQ(report.peak_bytes_allocated > report.forecast.peak.allocated, steps > kFirstSteps);
        return text;
    };
    constexpr const char* kReason = ": a batch had a different shape than the first ones, or work depended on values\n";
    EXPECT_THAT(printed(kFirstSteps), AllOf(HasSubstr(", predicted "), Not(HasSubstr(kReason))));
    EXPECT_THAT(printed(kFirstSteps + 1), HasSubstr(kReason));
}

TEST(BatchShapes, WhatWasNotRehearsedIsNotSaidToFit) {
    const auto not_rehearsed =
        AllOf(HasSubstr("its batch has a different shape than the first ones; give all batches one"),
              Not(HasSubstr("the whole program needs")), Not(HasSubstr("as a rehearsal shows")));
    TrainerOptions options = steps_of(kFirstSteps + 1);
    options.print = false;
    EXPECT_THAT(refusal_of(options, kLimit), AllOf(not_rehearsed, Not(HasSubstr(".budget"))));
    options.budget = kLimit;
    EXPECT_THAT(refusal_of(options, 0), AllOf(not_rehearsed, HasSubstr(", or use .budget = ")));
    options.steps = kFirstSteps;
    EXPECT_EQ(refusal_of(options, 0), "nothing was refused");
}

}  // namespace batch_shapes_test
}  // namespace headroom::training
