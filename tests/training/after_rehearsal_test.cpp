// What is said of a run that is refused memory although its rehearsal has passed.
#include <headroom/training/internal/rehearsal.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include <headroom/core/context.hpp>
#include <headroom/tests/training/one_layer_task.hpp>

namespace headroom::training {
namespace after_rehearsal_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kGpu = 1'000'000'000;

/// A batch of so many rows, which are large.
class WideTask final : public test::OneLayerTask {
  public:
    WideTask(Parameters& parameters, std::int64_t rows) : test::OneLayerTask(parameters), rows_(rows) {}
    Batch batch() override { return {ones(context_, {rows_ << 20, 2}), ones(context_, {1})}; }

  private:
    std::int64_t rows_;
};

const MakeTask kWide = task<WideTask>();

const TrainerOptions kOptions{.batch = 8, .steps = 2, .print = false};

/// Of so many bytes, all of which a training may take.
Profile gpu_of(std::size_t bytes) {
    Profile profile = Profile::gpu(bytes);
    profile.reserve = 0;
    return profile;
}

Forecast rehearsed_on(std::size_t gpu, const TrainerOptions& options = kOptions) {
    Context dry = Context::dry(gpu_of(gpu));
    return rehearse_on(dry, kWide, options);
}

OutOfMemory error_of(const OutOfMemory& error) {
    return beside_others(error, gpu_of(kGpu), kWide, kOptions, rehearsed_on(kGpu));
}

/// What the device would say of a request while others hold so much of it.
OutOfMemory error_beside(std::size_t others) {
    Context context = Context::dry(gpu_of(kGpu));
    memory::MemoryReport report;
    report.device = "cuda 0";
    report.requested = report.rounded = 1'000'000;
    report.page_bytes = context.memory().properties().granularity;
    report.device_total = kGpu;
    report.device_free = kGpu - others;
    return OutOfMemory(report);
}

TEST(AfterRehearsal, WhatFitsBesideOthersIsRehearsed) {
    const Forecast forecast = rehearsed_on(kGpu);
    const std::size_t others = kGpu - forecast.peak.reserved / 2;
    const OutOfMemory error = error_of(error_beside(others));
    EXPECT_EQ(error.report().whole, forecast.peak);
    const std::string line = error.what();
    EXPECT_THAT(line, HasSubstr("it fits with .budget = " + std::to_string(kGpu - others) +
                                ": 4 micro-batches of 2 samples, "));
    EXPECT_THAT(line, HasSubstr("; or with " + memory::format_bytes(others)));
    EXPECT_THAT(line, HasSubstr(" of the device that others now use"));
    TrainerOptions taken = kOptions;
    taken.batch = 2;
    taken.accumulate = 4;
    EXPECT_LE(rehearsed_on(kGpu - others, taken).peak.reserved, kGpu - others);
    taken.batch = 4;
    taken.accumulate = 2;
    EXPECT_THROW(rehearsed_on(kGpu - others, taken), OutOfMemory);
}

/// What is said of a training that takes twice the memory that there is.
std::string advice_for(const TrainerOptions& options) {
    const MemoryPeak whole = rehearsed_on(kGpu, options).peak;
    return advice(gpu_of(kGpu), whole.reserved / 2, whole, kWide, options, "more");
}

TEST(AfterRehearsal, OptionsThatWereGivenAreNotAskedFor) {
    TrainerOptions options = kOptions;
    options.split_batch = true;
    const std::string split = advice_for(options);
    EXPECT_THAT(split, HasSubstr("it fits with .budget = "));
    EXPECT_THAT(split, Not(HasSubstr("split_batch")));
    EXPECT_THAT(split, Not(HasSubstr("which changes the training")));
    options.split_batch = false;
    EXPECT_THAT(advice_for(options), HasSubstr(" .split_batch = true: "));
    EXPECT_THAT(advice_for(options), HasSubstr("which changes the training"));
}

TEST(AfterRehearsal, WhyNoPlanIsForItIsSaid) {
    const auto times = std::make_shared<std::int64_t>(0);
    const MakeTask growing = [&](Parameters& parameters, std::int64_t batch) {
        return std::make_unique<WideTask>(parameters, batch + ++*times);
    };
    const MemoryPeak whole = rehearsed_on(kGpu, kOptions).peak;
    EXPECT_THAT(advice(gpu_of(kGpu), whole.reserved / 2, whole, growing, kOptions, "more"),
                HasSubstr("no plan can be made for it (planner: the workload must do the same each time"));
}

TEST(AfterRehearsal, APlanTakesThePlaceOfAWayByHand) {
    TrainerOptions options = kOptions;
    options.recomputes = {{"none", "nothing", {}}, {"all", "all", {{"**", recompute_all()}}}};
    options.recompute = "all";
    EXPECT_THAT(advice_for(options), HasSubstr("it fits with .budget = "));
    EXPECT_THAT(advice_for(options), HasSubstr(" in place of .recompute: "));
    options.plan.emplace();
    EXPECT_THAT(advice_for(options), HasSubstr(" in place of .recompute and .plan: "));
    options.recompute.clear();
    EXPECT_THAT(advice_for(options), HasSubstr(" in place of .plan: "));
}

TEST(AfterRehearsal, StateThatLeavesNoRoomIsNamed) {
    const Forecast forecast = rehearsed_on(kGpu, kOptions);
    EXPECT_THAT(
        advice(gpu_of(kGpu), forecast.resident_bytes() - 1, forecast.peak, kWide, kOptions, "more"),
        HasSubstr("parameters and optimizer state alone take " + memory::format_bytes(forecast.resident_bytes())));
}

TEST(AfterRehearsal, NothingIsMadeUpWhereTheFiguresLeaveRoom) {
    const std::string line = error_of(error_beside(0)).what();
    EXPECT_THAT(line, EndsWith("; by these figures the free memory suffices, as a rehearsal shows"));
    EXPECT_THAT(line, Not(HasSubstr("piece")));
}

TEST(AfterRehearsal, MemoryOfTheHostIsNotTheContexts) {
    const OutOfMemory error = error_beside(0);
    memory::MemoryReport report = error.report();
    report.page_bytes = 1;
    EXPECT_STREQ(error_of(OutOfMemory("no page-locked memory", report)).what(), "no page-locked memory");
}

}  // namespace after_rehearsal_test
}  // namespace headroom::training
