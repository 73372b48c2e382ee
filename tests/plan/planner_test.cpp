// Plans for budgets: they keep within them, more memory never takes more time, and no bit changes.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/tests/plan/small_gpt.hpp>

namespace headroom::plan {
namespace planner_test {

using testing::HasSubstr;

Rehearsal rehearsed(const Plan& plan, std::optional<Dtype> half = std::nullopt) {
    return rehearse({}, [&](Context& dry) {
        dry.policy(plan.policy);
        train_small_gpt(dry, plan.division, half);
    });
}

std::uint64_t replays_of(const RecordedProgram& program) {
    std::uint64_t replays = 0;
    for (const RecordedOp& op : program.ops) replays += op.replays;
    return replays;
}

/// Seconds of a micro-batch, by the rates that a planner assumes.
double seconds_of(const RecordedProgram& program) {
    const std::vector<OpSeconds> seconds = Costs::assumed({}).of(program);
    double sum = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        sum += seconds[i].forward * (1 + program.ops[i].replays) + seconds[i].backward;
    }
    return sum;
}

TEST(Planner, KeepsWithinEveryBudget) {
    Planner planner({}, small_gpt_workload());
    ASSERT_LT(planner.floor_bytes() + 2 * kPage, planner.keep_all_bytes());
    double before = 1e30;
    for (std::size_t budget = planner.floor_bytes(); budget <= planner.keep_all_bytes(); budget += kPage) {
        const Plan plan = planner.fit(budget);
        EXPECT_LE(plan.peak_bytes_reserved, budget);
        EXPECT_LE(plan.step_seconds, before) << "more memory never takes more time";
        before = plan.step_seconds;
        const MemoryPeak peak = rehearsed(plan).peak;
        EXPECT_EQ(peak.reserved, plan.peak_bytes_reserved);
        EXPECT_EQ(peak.allocated, plan.peak_bytes_allocated);
    }
    const Plan kept = planner.fit(planner.keep_all_bytes());
    EXPECT_FALSE(kept.policy) << "nothing needs a plan";
    EXPECT_EQ(kept.replayed_ops, 0u);
}

/// The copies in half precision that autocast makes are ops of the plan, too.
TEST(Planner, PlansHalfPrecision) {
    Workload half = small_gpt_workload();
    half.run = [](Context& dry, const MicroBatching& division) { train_small_gpt(dry, division, Dtype::bf16); };
    Planner planner({}, half);
    for (std::size_t budget = planner.floor_bytes(); budget <= planner.keep_all_bytes(); budget += kPage) {
        const Plan plan = planner.fit(budget);
        EXPECT_LE(plan.peak_bytes_reserved, budget);
        const Rehearsal rehearsal = rehearsed(plan, Dtype::bf16);
        EXPECT_EQ(rehearsal.peak.reserved, plan.peak_bytes_reserved);
        EXPECT_EQ(replays_of(rehearsal.program), plan.replayed_ops);
        EXPECT_NEAR(seconds_of(rehearsal.program), plan.step_seconds, 1e-6 * plan.step_seconds);
    }
    std::uint32_t casts_again = 0;
    for (const RecordedOp& op : rehearsed(planner.fit(planner.floor_bytes()), Dtype::bf16).program.ops) {
        if (op.is_cast) casts_again += op.replays;
    }
    EXPECT_GT(casts_again, 0u) << "with the least memory";
}

TEST(Planner, SaysWhetherItsCostsWereMeasured) {
    TimedRun run{.program = rehearse({}, [](Context& dry) { train_small_gpt(dry, {.batch = 8}); }).program,
                 .steps = {}};
    run.steps.push_back({.seconds = 1, .ops = std::vector<OpTimes>(run.program.ops.size())});
    Costs costs = Costs::assumed({});
    for (const bool measured : {false, true}) {
        Planner planner({}, small_gpt_workload(), costs);
        EXPECT_EQ(planner.fit(planner.floor_bytes()).measured, measured);
        EXPECT_EQ(planner.fit(planner.keep_all_bytes()).measured, measured);
        costs.measure({run});
    }
}

TEST(Planner, CountsAllMicroBatchesOfAStep) {
    Workload three = small_gpt_workload();
    three.division = {.batch = 4, .accumulate = 3};
    Planner planner({}, three);
    const Plan plan = planner.fit(planner.floor_bytes());
    EXPECT_EQ(plan.division, three.division);
    const RecordedProgram program = rehearsed(plan).program;
    ASSERT_GT(replays_of(program), 0u);
    EXPECT_EQ(plan.replayed_ops, 3 * replays_of(program));
    EXPECT_NEAR(plan.step_seconds, 3 * seconds_of(program), 1e-6 * plan.step_seconds);
    three.may_split = [] { return true; };
    Planner splitting({}, three);
    const Plan least = splitting.fit(splitting.floor_bytes());
    EXPECT_LT(least.division.batch, 4);
    EXPECT_EQ(least.division.batch * least.division.accumulate, 12);
}

/// What is too large for the device is compared with the budget, not refused.
TEST(Planner, PlansForADeviceThatKeepingAllDoesNotFit) {
    Planner boundless({}, small_gpt_workload());
    const std::size_t limit = boundless.floor_bytes() + kPage;
    Planner limited({.memory_limit = limit}, small_gpt_workload());
    EXPECT_EQ(limited.floor_bytes(), boundless.floor_bytes());
    EXPECT_EQ(limited.keep_all_bytes(), boundless.keep_all_bytes());
    EXPECT_LE(limited.fit(limit).peak_bytes_reserved, limit);
}

TEST(Planner, NamesTheLeastBudget) {
    Planner planner({}, small_gpt_workload());
    EXPECT_EQ(planner.fit(planner.floor_bytes()).peak_bytes_reserved, planner.floor_bytes());
    try {
        planner.fit(planner.floor_bytes() - 1);
        FAIL();
    } catch (const BudgetTooSmall& error) {
        EXPECT_EQ(error.least(), planner.floor_bytes());
        EXPECT_EQ(error.keep_all(), planner.keep_all_bytes());
        EXPECT_THAT(error.what(), HasSubstr("the least found is " + std::to_string(planner.floor_bytes())));
    }
}

TEST(Planner, NoWayByHandWins) {
    const std::vector<std::vector<std::pair<std::string, Policy>>> ways{
        {{"**", recompute_cheap()}}, {{"blocks.*.mlp", recompute_all()}}, {{"blocks.*", recompute_all()}}};
    Workload by_hand = small_gpt_workload();
    by_hand.ways = ways;
    Planner planner({}, by_hand);
    for (const auto& way : ways) {
        const Rehearsal rehearsal = rehearse({}, [&](Context& dry) {
            for (const auto& [pattern, policy] : way) dry.policy(pattern, policy);
            train_small_gpt(dry, by_hand.division);
        });
        EXPECT_LE(planner.floor_bytes(), rehearsal.peak.reserved);
        EXPECT_LE(planner.fit(rehearsal.peak.reserved).step_seconds, seconds_of(rehearsal.program) * (1 + 1e-9))
            << way.front().first;
    }
}

TEST(Planner, SharesTheBatchOutWhereItMay) {
    Workload whole = small_gpt_workload(), split = small_gpt_workload();
    bool asked_after_running = false;
    split.run = [&](Context& dry, const MicroBatching& division) {
        train_small_gpt(dry, division);
        asked_after_running = true;
    };
    split.may_split = [&] { return asked_after_running; };
    Planner keeping({}, whole), splitting({}, split);
    EXPECT_EQ(splitting.keep_all_bytes(), keeping.keep_all_bytes());
    EXPECT_LT(splitting.floor_bytes(), keeping.floor_bytes());
    const Plan least = splitting.fit(splitting.floor_bytes());
    EXPECT_LT(least.division.batch, 8);
    EXPECT_EQ(least.division.batch * least.division.accumulate, 8);
    EXPECT_EQ(rehearsed(least).peak.reserved, least.peak_bytes_reserved);
}

/// As a norm that wants more than one value of a channel.
TEST(Planner, LeavesOutMicroBatchesThatTheWorkloadRefuses) {
    Workload split = small_gpt_workload();
    std::int64_t most_refused = 1;
    split.run = [&](Context& dry, const MicroBatching& division) {
        if (division.batch <= most_refused) throw Error("too few samples");
        train_small_gpt(dry, division);
    };
    split.may_split = [] { return true; };
    Planner splitting({}, split);
    EXPECT_EQ(splitting.fit(splitting.floor_bytes()).division.batch, 2);
    most_refused = 8;
    EXPECT_THROW(Planner({}, split), Error);
}

TEST(Planner, SamplesAreTheFastestAndTheLeastOfEachDivision) {
    Workload split = small_gpt_workload();
    split.may_split = [] { return true; };
    Planner planner({}, split);
    const std::size_t budget = planner.keep_all_bytes() - kPage;
    const std::vector<Plan> samples = planner.samples(budget);
    std::size_t least = budget, of_whole = 0;
    double fastest = 1e30;
    for (const Plan& plan : samples) {
        EXPECT_LE(plan.peak_bytes_reserved, budget);
        EXPECT_EQ(rehearsed(plan).peak.reserved, plan.peak_bytes_reserved);
        least = std::min(least, plan.peak_bytes_reserved);
        fastest = std::min(fastest, plan.step_seconds);
        of_whole += plan.division == split.division;
    }
    EXPECT_EQ(of_whole, 2u);
    EXPECT_EQ(least, planner.floor_bytes());
    EXPECT_EQ(fastest, planner.fit(budget).step_seconds);
    ASSERT_FALSE(planner.samples(planner.keep_all_bytes()).empty());
    EXPECT_FALSE(planner.samples(planner.keep_all_bytes()).front().policy) << "nothing runs again in the fastest";
    EXPECT_TRUE(planner.samples(0).empty());
}

TEST(Planner, ExplainsItsPlans) {
    Planner planner({}, small_gpt_workload());
    const Plan plan = planner.fit(planner.floor_bytes()), kept = planner.fit(planner.keep_all_bytes());
    const std::string text = planner.explain(plan);
    EXPECT_THAT(text, HasSubstr("blocks.*.mlp"));
    std::size_t ops = 0, again = 0, bytes = 0;
    double milliseconds = 0;
    const std::size_t all = text.find("\nall ");
    ASSERT_NE(all, std::string::npos) << text;
    ASSERT_EQ(std::sscanf(text.c_str() + all, " all %zu %zu %lf %zu", &ops, &again, &milliseconds, &bytes), 4) << text;
    EXPECT_EQ(again, plan.replayed_ops);
    EXPECT_NEAR(milliseconds, 1e3 * (plan.step_seconds - kept.step_seconds), 0.01);
    EXPECT_GT(bytes, 0u);
    EXPECT_LT(bytes, plan.peak_bytes_allocated);
    EXPECT_THAT(text,
                HasSubstr("the peak of " + std::to_string(plan.peak_bytes_allocated) + " bytes is in backward of"));
    EXPECT_THAT(planner.explain(kept), HasSubstr("the peak of " + std::to_string(kept.peak_bytes_allocated)));
    Plan other = plan;
    other.program.pop_back();
    EXPECT_THROW(planner.explain(other), Error);
}

TEST(Planner, ChangesNoBit) {
    Planner planner({}, small_gpt_workload());
    const Plan plan = planner.fit(planner.floor_bytes());
    ASSERT_GT(plan.replayed_ops, 0u);
    const auto hash = [&](const std::optional<Policy>& policy) {
        Context context = Context::cpu({.threads = 1});
        if (policy) context.policy(*policy);
        return train_small_gpt(context, plan.division);
    };
    EXPECT_EQ(hash(plan.policy), hash({}));
}

}  // namespace planner_test
}  // namespace headroom::plan
