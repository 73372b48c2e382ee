// What is said of a run that is refused memory although its rehearsal has passed.
#include <headroom/examples/program/rehearsal.hpp>

#include <string>

#include <gmock/gmock.h>

#include <headroom/core/context.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/tests/examples/one_layer_task.hpp>

namespace headroom::program {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kGpu = 1'000'000'000;

/// A batch of so many rows, which are large.
class WideTask final : public OneLayerTask {
  public:
    WideTask(Parameters& parameters, std::int64_t rows) : OneLayerTask(parameters), rows_(rows) {}
    Batch batch() override { return {ones(context_, {rows_ << 20, 2}), ones(context_, {1})}; }

  private:
    std::int64_t rows_;
};

Program wide() {
    Program program;
    program.unit = "samples";
    program.task = [](Parameters& parameters, std::int64_t batch) {
        return std::make_unique<WideTask>(parameters, batch);
    };
    return program;
}

Flags of_gpu() {
    Flags flags;
    flags.device = "dry";
    flags.gpu_memory = kGpu;
    flags.steps = 2;
    flags.batch = 8;
    return flags;
}

/// What the device would say of a request while others hold so much of it.
OutOfMemory error_beside(std::size_t others) {
    Context context = Context::dry(Profile::gpu(kGpu));
    memory::MemoryReport report;
    report.device = "cuda 0";
    report.requested = report.rounded = 1'000'000;
    report.page_bytes = context.memory().properties().granularity;
    report.device_total = kGpu;
    report.device_free = kGpu - others;
    return OutOfMemory(report);
}

TEST(AfterRehearsal, WhatFitsBesideOthersIsRehearsed) {
    const Flags flags = of_gpu();
    const Forecast forecast = rehearse(flags, wide());
    const std::size_t others = kGpu - forecast.peak.reserved / 2;
    const OutOfMemory error = after_rehearsal(error_beside(others), flags, wide(), forecast);
    EXPECT_EQ(error.report().whole, forecast.peak);
    const std::string line = error.what();
    EXPECT_THAT(line, HasSubstr("it fits with --batch 2 --accumulate 4 and then reserves "));
    EXPECT_THAT(line, HasSubstr("; or with " + memory::format_bytes(others)));
    EXPECT_THAT(line, HasSubstr(" that others now use of the device"));
    Flags taken = flags;
    taken.batch = 2;
    taken.accumulate = 4;
    taken.gpu_memory = kGpu - others;
    EXPECT_LE(rehearse(taken, wide()).peak.reserved, kGpu - others);
    taken.batch = 4;
    taken.accumulate = 2;
    EXPECT_THROW(rehearse(taken, wide()), OutOfMemory);
}

TEST(AfterRehearsal, NothingIsMadeUpWhereTheFiguresLeaveRoom) {
    const Flags flags = of_gpu();
    const Forecast forecast = rehearse(flags, wide());
    const std::string line = after_rehearsal(error_beside(0), flags, wide(), forecast).what();
    EXPECT_THAT(line, EndsWith("; a rehearsal has passed in what is free by these figures"));
    EXPECT_THAT(line, Not(HasSubstr("piece")));
}

TEST(AfterRehearsal, MemoryOfTheHostIsNotTheContexts) {
    const Flags flags = of_gpu();
    const OutOfMemory error = error_beside(0);
    memory::MemoryReport report = error.report();
    report.page_bytes = 1;
    const OutOfMemory pinned("no page-locked memory", report);
    EXPECT_STREQ(after_rehearsal(pinned, flags, wide(), rehearse(flags, wide())).what(), "no page-locked memory");
}

}  // namespace
}  // namespace headroom::program
