// Which plan is chosen, and what it says of itself: by budgets, by times that are uncertain, and beside what the
// workload has decided.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/recomputed.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/tests/plan/small_gpt.hpp>
#include <headroom/tests/plan/small_models.hpp>

namespace headroom::plan {
namespace planner_choice_test {

using testing::HasSubstr;
using testing::Not;

/// Linear layers, each with a function between.
void train_layers(Context& context, std::int64_t batch, const std::vector<std::int64_t>& widths,
                  const std::function<Tensor(Tensor)>& between) {
    Parameters parameters(context);
    std::vector<nn::Linear> layers;
    for (std::size_t i = 1; i < widths.size(); ++i)
        layers.emplace_back(nn::Path(parameters) / ("layer" + std::to_string(i)), widths[i - 1], widths[i]);
    train_model(context, {batch, widths.front()}, [&](Tensor x) {
        for (const nn::Linear& layer : layers) x = between(layer(x));
        return x;
    });
}

/// Each second one halves its images and doubles their channels.
void train_convolutions(Context& context, std::int64_t batch) {
    Parameters parameters(context);
    std::vector<nn::Conv2d> layers;
    for (std::int64_t i = 0, channels = 3; i < 6; ++i) {
        const std::int64_t out = std::int64_t{8} << i / 2;
        layers.emplace_back(nn::Path(parameters) / "layers" / static_cast<std::size_t>(i), channels, out, 3,
                            Conv2dOptions{.stride = 1 + i % 2, .padding = 1});
        channels = out;
    }
    train_model(context, {batch, 3, 64, 64}, [&](Tensor x) {
        for (const nn::Conv2d& layer : layers) x = gelu(layer(std::move(x)));
        return x;
    });
}

std::vector<std::pair<std::string, Workload>> cheap_models() {
    const auto of = [](std::int64_t batch, const std::vector<std::int64_t>& widths,
                       const std::function<Tensor(Tensor)>& between) {
        return Workload{
            .run = [=](Context& dry,
                       const MicroBatching& division) { train_layers(dry, division.batch, widths, between); },
            .division = {.batch = batch}};
    };
    const auto gelus = [](Tensor x) { return gelu(std::move(x)); };
    const auto gated = [](const Tensor& x) { return tanh(x) * sigmoid(x); };
    const auto chained = [](Tensor x) { return tanh(gelu(sigmoid(std::move(x)))); };
    return {{"gpt", small_gpt_workload()},
            {"wide", of(2048, {64, 512, 512, 512, 64}, gelus)},
            {"deep", of(4096, std::vector<std::int64_t>(16, 64), gelus)},
            {"gated", of(4096, std::vector<std::int64_t>(9, 96), gated)},
            {"chained", of(2048, {64, 128, 256, 512, 256, 128, 64}, chained)},
            {"narrowing", of(8192, {256, 128, 64, 32, 16, 8}, gated)},
            {"adapters",
             {.run = [](Context& dry, const MicroBatching& division) { train_adapters(dry, division.batch); },
              .division = {.batch = 4096}}},
            {"convolutions",
             {.run = [](Context& dry, const MicroBatching& division) { train_convolutions(dry, division.batch); },
              .division = {.batch = 32}}}};
}

/// Of 65 budgets.
void expect_no_slower_plan_for_more(Planner& planner) {
    const std::size_t floor = planner.floor_bytes(), kept = planner.keep_all_bytes();
    ASSERT_LT(floor, kept);
    std::vector<std::pair<std::size_t, Plan>> plans;
    for (std::size_t i = 0; i <= 64; ++i) {
        const std::size_t budget = floor + (kept - floor) / 64 * i;
        plans.emplace_back(budget, planner.fit(budget));
    }
    for (const auto& [budget, plan] : plans) {
        for (const auto& [other_budget, other] : plans) {
            if (other.peak_bytes_reserved > budget) continue;
            EXPECT_LE(plan.step_seconds, other.step_seconds)
                << budget << " bytes, and a plan for " << other_budget << " reserves " << other.peak_bytes_reserved;
        }
    }
    EXPECT_GT(plans.front().second.step_seconds, plans.back().second.step_seconds);
    EXPECT_LE(planner.plans_rehearsed(), 200u);
}

TEST(Planner, NoBudgetsPlanIsSlowerThanAnotherOnesThatReservesAsLittle) {
    for (const auto& [name, workload] : cheap_models()) {
        SCOPED_TRACE(name);
        Planner planner({}, workload);
        expect_no_slower_plan_for_more(planner);
    }
}

/// Also where a plan reserves more than it was expected to.
TEST(Planner, SamplesKeepWithinTheBudget) {
    for (const auto& [name, workload] : cheap_models()) {
        Planner planner({}, workload);
        std::size_t samples = 0;
        for (std::size_t budget = planner.floor_bytes(); budget <= planner.keep_all_bytes(); budget += kPage) {
            for (const Plan& plan : planner.samples(budget)) {
                EXPECT_LE(plan.peak_bytes_reserved, budget) << name;
                ++samples;
            }
        }
        EXPECT_GT(samples, 0u) << name;
    }
}

/// As measured in the small GPT's own micro-batches, whole and split: the latter's ops take less time by `gain`, and
/// steps differ from what is predicted by `spread`.
Costs costs_with(double gain, double spread) {
    std::vector<TimedRun> runs;
    for (const MicroBatching& division :
         {MicroBatching{.batch = 8, .accumulate = 1}, MicroBatching{.batch = 4, .accumulate = 2}}) {
        TimedRun run{.program = rehearse({}, [&](Context& dry) { train_small_gpt(dry, division); }).program,
                     .micro_batches = division.accumulate,
                     .steps = {}};
        const double seconds = division.batch == 8 ? 1e-3 : 0.5e-3 * (1 - gain);
        for (const double off : {-spread, spread}) {
            const double all = 2 * seconds * static_cast<double>(run.program.ops.size() * division.accumulate);
            run.steps.push_back({.seconds = all * (1 + off), .ops = {}});
            for (std::int64_t i = 0; i < static_cast<std::int64_t>(run.program.ops.size()); ++i) {
                const std::vector<double> each(static_cast<std::size_t>(division.accumulate), seconds);
                run.steps.back().ops.push_back({.forward = each, .backward = each});
            }
        }
        runs.push_back(std::move(run));
    }
    Costs costs = Costs::assumed({});
    costs.measure(runs);
    return costs;
}

TEST(Planner, IsFasterThanKeepingAllByMoreThanTheSpreadOrKeepsAll) {
    Workload split = small_gpt_workload();
    split.may_split = [] { return true; };
    split.run = [](Context& dry, const MicroBatching& division) {
        if (division.batch < 4) throw Error("of these, nothing was measured");
        train_small_gpt(dry, division);
    };
    for (const double spread : {0.02, 0.2}) {
        const Costs costs = costs_with(0.1, spread);
        EXPECT_GT(costs.spread(), spread / 2);
        EXPECT_LT(costs.spread(), 2 * spread);
        Planner planner({}, split, costs);
        const Plan plan = planner.fit(2 * planner.keep_all_bytes());
        if (spread < 0.1) {
            EXPECT_EQ(plan.division.batch, 4);
            EXPECT_THAT(plan.to_string(), HasSubstr("% faster than keeping all"));
            EXPECT_NEAR(plan.gain, 0.1, 0.03);
        } else {
            EXPECT_EQ(plan.division.batch, 8);
            EXPECT_EQ(plan.replayed_ops, 0u);
            EXPECT_THAT(plan.to_string(), Not(HasSubstr("faster")));
        }
    }
}

TEST(Planner, NoBudgetsPlanIsSlowerByMeasuredTimesAndWhereItMaySplit) {
    for (const bool may_split : {false, true}) {
        Workload workload = small_gpt_workload();
        workload.may_split = [&] { return may_split; };
        Planner planner({}, workload, costs_with(-0.1, 0.02));
        expect_no_slower_plan_for_more(planner);
        EXPECT_EQ(planner.fit(planner.floor_bytes()).division.batch < workload.division.batch, may_split);
    }
}

TEST(Planner, SaysThatItSplits) {
    Workload split = small_gpt_workload();
    split.may_split = [] { return true; };
    Planner planner({}, split);
    const Plan least = planner.fit(planner.floor_bytes());
    ASSERT_LT(least.division.batch, 8);
    EXPECT_THAT(least.to_string(), HasSubstr(", split from 8: draws differ, "));
    EXPECT_THAT(planner.fit(planner.keep_all_bytes()).to_string(), Not(HasSubstr("split")));
}

/// A budget that one set of costs trains with, another one does, too.
TEST(Planner, HasOneLeastBudgetForAllCosts) {
    const Costs alike({.operations = 1e15, .half_operations = 1e15, .bytes = 1e15, .op_seconds = 1e-6});
    for (const auto& [name, workload] : cheap_models()) {
        Planner one({}, workload), other({}, workload, alike);
        EXPECT_EQ(one.floor_bytes(), other.floor_bytes()) << name;
        EXPECT_LE(other.fit(one.floor_bytes()).peak_bytes_reserved, one.floor_bytes()) << name;
    }
}

/// As a GAN's steps, of a discriminator and a generator.
TEST(Planner, SaysThatOneOfSeveralKindsIsPlanned) {
    for (const bool two : {false, true}) {
        Planner planner({}, {.run = [&](Context& dry, const MicroBatching&) {
                            if (two) train_layers(dry, 4096, {64, 64, 64}, [](const Tensor& x) { return tanh(x); });
                            train_layers(dry, 4096, std::vector<std::int64_t>(9, 64),
                                         [](const Tensor& x) { return gelu(x); });
                        }});
        const Plan plan = planner.fit(planner.floor_bytes());
        EXPECT_EQ(plan.kinds, two ? 2 : 1);
        EXPECT_EQ(plan.to_string().find("for the last of 2 kinds of micro-batch") != std::string::npos, two);
    }
}

/// What runs again by `recomputed`, or by policies of the workload's own, does so under every plan.
TEST(Planner, DecidesAboutWhatTheWorkloadLeavesOpen) {
    const auto train_half = [](Context& context, bool itself) {
        train_layers(context, 4096, std::vector<std::int64_t>(9, 64), [&, layer = 0](Tensor x) mutable {
            const auto function = [&] { return tanh(gelu(sigmoid(gelu(tanh(x))))); };
            return itself && layer++ % 2 == 0 ? recomputed(context, "odd", function) : function();
        });
    };
    Planner free({}, {.run = [&](Context& dry, const MicroBatching&) { train_half(dry, false); }});
    Planner half({}, {.run = [&](Context& dry, const MicroBatching&) { train_half(dry, true); }});
    const Plan kept = half.fit(half.keep_all_bytes()), least = half.fit(half.floor_bytes());
    EXPECT_LT(half.keep_all_bytes(), free.keep_all_bytes());
    EXPECT_LT(half.floor_bytes(), half.keep_all_bytes());
    EXPECT_GT(kept.replayed_ops, 0u);
    EXPECT_GT(least.replayed_ops, kept.replayed_ops);
    EXPECT_GT(least.step_seconds, kept.step_seconds);
    EXPECT_THAT(half.explain(least), HasSubstr("odd"));
    for (std::size_t budget = half.floor_bytes(); budget <= half.keep_all_bytes(); budget += kPage) {
        const Plan plan = half.fit(budget);
        const Rehearsal rehearsal = rehearse({}, [&](Context& dry) {
            dry.policy(plan.policy);
            train_half(dry, true);
        });
        EXPECT_EQ(rehearsal.peak.reserved, plan.peak_bytes_reserved);
        EXPECT_EQ(rehearsal.program.replays(), plan.replayed_ops);
    }
    Planner by_policy({}, {.run =
                               [&](Context& dry, const MicroBatching& division) {
                                   dry.policy("blocks.*.mlp", recompute_all());
                                   train_small_gpt(dry, division);
                               },
                           .division = {.batch = 8}});
    EXPECT_LT(by_policy.floor_bytes(), by_policy.keep_all_bytes());
}

}  // namespace planner_choice_test
}  // namespace headroom::plan
