// What is advised to a training that does not fit is tried: it fits as advised, and not with less. Under conditions of
// machines in use: other programs on the GPU, graphs, shares of other sizes, a last sample that takes the most.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/tests/training/deep_task.hpp>
#include <headroom/training/internal/rehearsal.hpp>
#include <headroom/training/trainer.hpp>

namespace headroom::training {
namespace limits_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kMega = std::size_t{1} << 20;

MakeTask deep() { return task<test::Deep>(test::deep_points()); }

TrainerOptions usual() { return {.batch = test::kDeepBatch, .steps = 3, .handle_signals = false, .print = false}; }

/// The number behind `words` in a text.
std::size_t number_behind(const std::string& words, const std::string& text) {
    const std::size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << words << " in: " << text;
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + words.size()));
}

/// Of a rehearsal that is refused memory.
memory::MemoryReport refused(const Profile& profile, const MakeTask& task, const TrainerOptions& options) {
    try {
        Trainer(task, options).rehearse(profile);
    } catch (const OutOfMemory& error) {
        return error.report();
    }
    ADD_FAILURE() << "it fits";
    return {};
}

bool fits(const Profile& profile, const MakeTask& task, const TrainerOptions& options) {
    try {
        Trainer(task, options).rehearse(profile);
        return true;
    } catch (const OutOfMemory&) {
        return false;
    }
}

std::size_t page_of(const Profile& profile) { return profile.device_memory().granularity; }

/// A GPU of so many pages for a training, beside the `others` of other programs.
Profile gpu(std::size_t pages, std::size_t others) {
    Profile profile = Profile::gpu(1000 * kMega);
    profile.reserve = 20 * kMega;
    profile.in_use = others;
    const std::size_t left = profile.device_memory().total_bytes - profile.usable_bytes();
    profile.memory.total_bytes = pages * page_of(profile) + left;
    return profile;
}

class Limits : public ::testing::Test {
  protected:
    /// Pages that the training takes on such a GPU, whoever uses it, too.
    std::size_t pages(const TrainerOptions& options) const {
        const Profile profile = gpu(4000, 0);
        return Trainer(deep_, options).rehearse(profile).peak.reserved / page_of(profile);
    }
    const MakeTask deep_ = deep();
};

TEST_F(Limits, ALimitAboveWhatOthersLeaveDoesNotSuffice) {
    const std::size_t whole = pages(usual());
    ASSERT_GT(whole, 4u);
    for (const std::size_t others : {std::size_t{0}, 300 * kMega}) {
        Profile profile = gpu(whole - 1, others);
        ASSERT_EQ(profile.usable_bytes(), (whole - 1) * page_of(profile));
        for (const std::size_t more : {std::size_t{0}, std::size_t{40}}) {  // pages above what is left
            profile.memory_limit = profile.usable_bytes() + more * page_of(profile);
            const memory::MemoryReport report = refused(profile, deep_, usual());
            const std::size_t budget = number_behind(".budget = ", report.advice);
            EXPECT_EQ(budget, profile.usable_bytes()) << "what others leave is less than the limit";
            EXPECT_THAT(report.advice, Not(HasSubstr("; or with .memory_limit")));
            const std::size_t device = number_behind("; or with a device with ", report.advice);
            EXPECT_EQ(device, profile.memory.total_bytes + page_of(profile)) << "no limit helps where others are";
            // As it says: with that budget it fits here, and with such a device without one.
            TrainerOptions planned = usual();
            planned.budget = budget;
            Profile unlimited = profile;
            unlimited.memory_limit = 0;
            EXPECT_LE(Trainer(deep_, planned).plan(unlimited).plan.peak_bytes_reserved, budget);
            unlimited.memory.total_bytes = device;
            unlimited.memory.address_bytes = std::max(unlimited.memory.address_bytes, device);
            EXPECT_TRUE(fits(unlimited, deep_, usual()));
            unlimited.memory.total_bytes = device - page_of(profile);
            EXPECT_FALSE(fits(unlimited, deep_, usual()));
        }
        profile = gpu(whole + 40, others);  // where a limit alone stands in the way
        profile.memory_limit = (whole - 1) * page_of(profile);
        const memory::MemoryReport report = refused(profile, deep_, usual());
        EXPECT_EQ(number_behind("; or with .memory_limit = ", report.advice), whole * page_of(profile));
        EXPECT_EQ(number_behind(".budget = ", report.advice), profile.memory_limit);
    }
}

/// The same of a program without a trainer.
TEST_F(Limits, ALimitSufficesOnlyWhereTheDeviceHasAsMuch) {
    const std::size_t whole = pages(usual());
    const auto advice = [&](const Profile& profile) {
        try {
            headroom::rehearse(profile, [&](Context& dry) { Trainer(deep_, usual()).rehearse(dry); });
        } catch (const OutOfMemory& error) {
            return error.report().advice;
        }
        return std::string("it fits");
    };
    for (const std::size_t others : {std::size_t{0}, 300 * kMega}) {
        Profile profile = gpu(whole, others);
        const std::string suffices = std::to_string(whole * page_of(profile)) + " bytes suffices";
        EXPECT_EQ(advice(profile), "it fits");
        profile.memory_limit = (whole - 1) * page_of(profile);
        EXPECT_EQ(advice(profile), "a limit of " + suffices);
        profile = gpu(whole - 1, others);
        const std::string device =
            "a device of " + std::to_string(profile.memory.total_bytes + page_of(profile)) + " bytes suffices";
        EXPECT_EQ(advice(profile), device);
        profile.memory_limit = (whole - 2) * page_of(profile);
        EXPECT_EQ(advice(profile), device) << "a limit would have to be above what the device has";
    }
}

/// In small pages and sizes of all kinds, so that free memory is in pieces.
TEST_F(Limits, AnAdvisedLimitIsTheLeast) {
    std::int64_t between = 0;
    for (const std::size_t page : {std::size_t{1} << 12, std::size_t{1} << 16}) {
        for (const std::int64_t batch : {31, 997}) {
            for (const std::int64_t accumulate : {1, 3}) {
                SCOPED_TRACE(testing::Message() << accumulate << " of " << batch << " samples in pages of " << page);
                Profile profile{.threads = 1};
                profile.memory = profile.device_memory();
                profile.memory.granularity = page;
                TrainerOptions options = usual();
                options.batch = batch;
                options.accumulate = accumulate;
                options.split_batch = false;
                const Forecast forecast = Trainer(deep_, options).rehearse(profile);
                profile.memory_limit = forecast.resident_bytes() / page * page + page;
                if (forecast.peak.reserved <= profile.memory_limit) continue;
                const memory::MemoryReport report = refused(profile, deep_, options);
                const std::size_t limit = report.whole_limit;
                EXPECT_THAT(report.advice, HasSubstr(".memory_limit = " + std::to_string(limit)));
                profile.memory_limit = limit;
                EXPECT_TRUE(fits(profile, deep_, options));
                profile.memory_limit = limit - page;
                EXPECT_FALSE(fits(profile, deep_, options)) << "a page less than the " << limit << " that are advised";
                between += limit > report.whole->allocated + page && limit < report.whole->reserved;
            }
        }
    }
    EXPECT_GT(between, 0) << "what is live at once, or what was reserved, is the least everywhere";
}

/// What a graph holds is not free for others, so that plans without graphs get along with less.
TEST_F(Limits, WithoutGraphsIsAdvisedWhereOnlyThatFits) {
    Profile profile = gpu(4000, 0);
    TrainerOptions options = usual();
    options.split_batch = true;  // so that there is no other way out
    TrainerOptions planned = options;
    planned.budget = profile.usable_bytes();
    const auto floor = [&](bool graphs) {
        Profile other = profile;
        other.compute.graphs = graphs;
        return Trainer(deep_, planned).plan(other).floor_bytes;
    };
    const std::size_t with = floor(true), without = floor(false);
    ASSERT_GT(with, without) << "graphs take nothing";
    profile.compute.graphs = true;
    const MemoryPeak whole = Trainer(deep_, options).rehearse(profile).peak;
    ASSERT_GT(whole.reserved, with);
    const auto advised = [&](std::size_t bytes) { return advice(profile, bytes, whole, deep_, options, "more"); };
    EXPECT_THAT(advised(with), HasSubstr("it fits with .budget = " + std::to_string(with) + ": "));
    for (const std::size_t bytes : {without, with - page_of(profile)}) {
        EXPECT_THAT(advised(bytes),
                    HasSubstr("it fits with .budget = " + std::to_string(bytes) + " and without .graphs: "));
    }
    const std::string less = advised(without - page_of(profile));
    EXPECT_THAT(less, Not(HasSubstr("it fits")));
    EXPECT_THAT(less, HasSubstr("needs less than"));
}

TEST_F(Limits, WhatIsAdvisedForProcessesFitsOnEachOfThem) {
    Profile profile{.threads = 1};
    profile.memory = profile.device_memory();
    profile.memory.granularity = std::size_t{1} << 12;  // so that shares of other sizes have other numbers of pages
    bool uneven = false, advised = false;
    for (const std::int64_t accumulate : {1, 2, 5}) {
        TrainerOptions options = usual();
        options.accumulate = accumulate;
        options.batch = 2 * 31;
        TrainerOptions planned = options;
        planned.budget = std::size_t{1} << 30;
        const std::size_t floor = Trainer(deep_, planned).plan(profile).floor_bytes;
        profile.memory_limit = floor - page_of(profile);
        const std::string text = refused(profile, deep_, options).advice;
        profile.memory_limit = 0;
        const std::size_t at = text.find(" processes (mpirun -np ");
        if (at == std::string::npos) continue;
        advised = true;
        TrainerOptions told = options;
        told.shard = Shard::gradients;
        Profile of_rank = profile;
        of_rank.ranks = static_cast<int>(number_behind("mpirun -np ", text));
        const bool divides = text.find(".batch = ") != std::string::npos;
        EXPECT_EQ(text.find(" in place of .batch and .accumulate and .memory_limit") != std::string::npos, divides)
            << text;
        if (divides) {
            told.batch = static_cast<std::int64_t>(number_behind(".batch = ", text));
            told.accumulate = static_cast<std::int64_t>(number_behind(".accumulate = ", text));
            EXPECT_EQ(told.batch * told.accumulate, options.batch * options.accumulate);
        }
        told.budget = number_behind(".budget = ", text);
        EXPECT_LT(told.budget, floor);
        Trainer trainer(deep_, told);
        trainer.apply(trainer.plan(of_rank).plan);
        std::vector<std::size_t> reserved;
        for (const RankReport& rank : trainer.rehearse_ranks(of_rank)) {
            EXPECT_LE(rank.predicted_bytes_reserved, told.budget);
            reserved.push_back(rank.predicted_bytes_reserved);
        }
        ASSERT_EQ(std::ssize(reserved), of_rank.ranks);
        uneven |= std::ranges::min(reserved) < std::ranges::max(reserved);
    }
    EXPECT_TRUE(advised);
    EXPECT_TRUE(uneven);
}

/// Its peak is in its validation or behind its last step, where a sample is made.
class LateTask final : public test::Deep {
  public:
    LateTask(Parameters& parameters, std::int64_t batch, const test::DeepPoints& points, std::int64_t validating,
             std::int64_t ending)
        : Deep(parameters, batch, points), validating_(validating), ending_(ending) {}
    Validation validate(const ProgressCallback&) override {
        take(validating_);
        return {};
    }
    void end() override { take(ending_); }

  private:
    void take(std::int64_t mega) { const Tensor taken = ones(context(), {mega << 18}); }

    std::int64_t validating_, ending_;
};

TEST_F(Limits, ATrainingWhosePeakIsBehindItsStepsIsRefusedBeforehand) {
    const std::size_t page = page_of(Context::cpu({.threads = 1}).profile());
    for (const auto& [validating, ending] : {std::pair{64, 1}, {1, 64}, {32, 64}}) {
        const MakeTask late = task<LateTask>(test::deep_points(), std::int64_t{validating}, std::int64_t{ending});
        const auto run = [&](const TrainerOptions& options, std::size_t limit) {
            Context context = Context::cpu({.threads = 1, .memory_limit = limit, .seed = 5});
            return Trainer(late, options).run(context);
        };
        TrainerOptions options = usual();
        options.batch = 61;
        const Report whole = run(options, 0);
        EXPECT_EQ(whole.peak_bytes_allocated, whole.forecast.peak.allocated);
        EXPECT_EQ(whole.peak_bytes_reserved, whole.forecast.peak.reserved);
        const std::size_t least = 64 * kMega;
        ASSERT_GT(whole.peak_bytes_allocated, least);
        const std::size_t limit = whole.peak_bytes_reserved;
        EXPECT_EQ(run(options, limit).state_sha256, whole.state_sha256);
        const memory::MemoryReport report =
            refused(Context::cpu({.threads = 1, .memory_limit = least}).profile(), late, options);
        EXPECT_TRUE(report.rehearsal);
        EXPECT_LE(run(options, report.whole_limit).peak_bytes_reserved, report.whole_limit);
        EXPECT_THROW(run(options, report.whole_limit - page), OutOfMemory);
        // Nor can a plan help: the least that it needs is that of the end.
        TrainerOptions planned = options;
        planned.budget = std::size_t{1} << 30;
        const Planned plan = Trainer(late, planned).plan(Context::cpu({.threads = 1}).profile());
        EXPECT_GT(plan.floor_bytes, least);
        planned.budget = plan.floor_bytes;
        const Report tight = run(planned, 0);
        EXPECT_EQ(tight.peak_bytes_reserved, plan.floor_bytes);
        EXPECT_EQ(tight.peak_bytes_reserved, tight.planned->plan.peak_bytes_reserved);
        planned.budget = plan.floor_bytes - page;
        EXPECT_THROW(run(planned, 0), plan::BudgetTooSmall);
    }
}

}  // namespace limits_test
}  // namespace headroom::training
