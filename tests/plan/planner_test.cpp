// Plans for budgets: they keep within them, more memory never takes more time, and no bit changes.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/plan/planner.hpp>

namespace headroom::plan {
namespace {

using testing::HasSubstr;

constexpr std::size_t kPage = std::size_t{2} << 20;

nn::GptOptions gpt() { return {.vocabulary = 64, .block = 64, .layers = 6, .heads = 2, .width = 64}; }

/// Two steps of a GPT; a hash of its state.
std::string train(Context& context, const Division& division, std::optional<Dtype> half = std::nullopt) {
    const Autocast autocast(context, half);
    Parameters parameters(context);
    nn::Gpt model(parameters, gpt());
    optim::AdamW optimizer(parameters);
    optim::GradientAccumulator accumulator(parameters, optimizer);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(division.batch * 64));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7 % 64);
    for (int step = 0; step < 2; ++step) {
        for (std::int64_t i = 0; i < division.accumulate; ++i) {
            accumulator.accumulate([&] {
                const Shape shape{division.batch, 64};
                return model.loss(context.from_host(ids, shape), context.from_host(ids, shape));
            });
        }
        accumulator.step(1e-3);
    }
    return context.dry() ? "" : files::state_sha256(context, {parameters, optimizer});
}

Workload workload() {
    return {.run = [](Context& dry, const Division& division) { train(dry, division); }, .division = {.batch = 8}};
}

Rehearsal rehearsed(const Plan& plan, std::optional<Dtype> half = std::nullopt) {
    return rehearse({}, [&](Context& dry) {
        dry.policy(plan.policy);
        train(dry, plan.division, half);
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
    Planner planner({}, workload());
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
    Workload half = workload();
    half.run = [](Context& dry, const Division& division) { train(dry, division, Dtype::bf16); };
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
    TimedRun run{.program = rehearse({}, [](Context& dry) { train(dry, {.batch = 8}); }).program, .steps = {}};
    run.steps.push_back({.seconds = 1, .ops = std::vector<OpTimes>(run.program.ops.size())});
    Costs costs = Costs::assumed({});
    for (const bool measured : {false, true}) {
        Planner planner({}, workload(), costs);
        EXPECT_EQ(planner.fit(planner.floor_bytes()).measured, measured);
        EXPECT_EQ(planner.fit(planner.keep_all_bytes()).measured, measured);
        costs.measure({run});
    }
}

TEST(Planner, CountsAllMicroBatchesOfAStep) {
    Workload three = workload();
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
    Planner boundless({}, workload());
    const std::size_t limit = boundless.floor_bytes() + kPage;
    Planner limited({.memory_limit = limit}, workload());
    EXPECT_EQ(limited.floor_bytes(), boundless.floor_bytes());
    EXPECT_EQ(limited.keep_all_bytes(), boundless.keep_all_bytes());
    EXPECT_LE(limited.fit(limit).peak_bytes_reserved, limit);
}

TEST(Planner, NamesTheLeastBudget) {
    Planner planner({}, workload());
    EXPECT_EQ(planner.fit(planner.floor_bytes()).peak_bytes_reserved, planner.floor_bytes());
    try {
        planner.fit(planner.floor_bytes() - 1);
        FAIL();
    } catch (const BudgetTooSmall& error) {
        EXPECT_EQ(error.least(), planner.floor_bytes());
        EXPECT_EQ(error.keep_all(), planner.keep_all_bytes());
        EXPECT_THAT(error.what(), HasSubstr("the least is " + std::to_string(planner.floor_bytes())));
    }
}

TEST(Planner, NoWayByHandWins) {
    const std::vector<std::vector<std::pair<std::string, Policy>>> ways{
        {{"**", recompute_cheap()}}, {{"blocks.*.mlp", recompute_all()}}, {{"blocks.*", recompute_all()}}};
    Workload by_hand = workload();
    by_hand.ways = ways;
    Planner planner({}, by_hand);
    for (const auto& way : ways) {
        const Rehearsal rehearsal = rehearse({}, [&](Context& dry) {
            for (const auto& [pattern, policy] : way) dry.policy(pattern, policy);
            train(dry, by_hand.division);
        });
        EXPECT_LE(planner.floor_bytes(), rehearsal.peak.reserved);
        EXPECT_LE(planner.fit(rehearsal.peak.reserved).step_seconds, seconds_of(rehearsal.program) * (1 + 1e-9))
            << way.front().first;
    }
}

TEST(Planner, SharesTheBatchOutWhereItMay) {
    Workload whole = workload(), split = workload();
    bool asked_after_running = false;
    split.run = [&](Context& dry, const Division& division) {
        train(dry, division);
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
    Workload split = workload();
    std::int64_t most_refused = 1;
    split.run = [&](Context& dry, const Division& division) {
        if (division.batch <= most_refused) throw Error("too few samples");
        train(dry, division);
    };
    split.may_split = [] { return true; };
    Planner splitting({}, split);
    EXPECT_EQ(splitting.fit(splitting.floor_bytes()).division.batch, 2);
    most_refused = 8;
    EXPECT_THROW(Planner({}, split), Error);
}

TEST(Planner, SamplesAreTheFastestAndTheLeastOfEachDivision) {
    Workload split = workload();
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
    Planner planner({}, workload());
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
    Planner planner({}, workload());
    const Plan plan = planner.fit(planner.floor_bytes());
    ASSERT_GT(plan.replayed_ops, 0u);
    const auto hash = [&](const std::optional<Policy>& policy) {
        Context context = Context::cpu({.threads = 1});
        if (policy) context.policy(*policy);
        return train(context, plan.division);
    };
    EXPECT_EQ(hash(plan.policy), hash({}));
}

TEST(Planner, RefusesWorkloadsThatCanNotBePlanned) {
    const auto error_of = [](const std::function<void(Context&)>& run) -> std::string {
        try {
            Planner planner({}, {.run = [&](Context& dry, const Division&) { run(dry); }});
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    };
    EXPECT_THAT(error_of([](Context& dry) { dry.scalar(1) + dry.scalar(2); }), HasSubstr("runs backward"));
    EXPECT_THAT(error_of([](Context& dry) {
                    Parameters parameters(dry);
                    nn::Gpt model(parameters, gpt());
                    const std::vector<std::int64_t> ids(8 * 64, 1);
                    const Loss loss = model.loss(dry.from_host(ids, {8, 64}), dry.from_host(ids, {8, 64}));
                    backward(loss.sum());
                }),
                HasSubstr("MicroBatchScope"));
    EXPECT_THAT(error_of([](Context& dry) {
                    dry.policy("blocks.*", recompute_all());
                    train(dry, {.batch = 2});
                }),
                HasSubstr("leave its policies out"));
    EXPECT_THAT(error_of([](Context&) { throw Error("the workload's own"); }), HasSubstr("the workload's own"));
}

/// What a planner throws whose workload is `run`, which is given the number of its call, from 1.
std::string error_of_calls(const std::function<void(Context& dry, const Division& division, int call)>& run) {
    int calls = 0;
    try {
        Planner planner({}, {.run = [&](Context& dry, const Division& division) { run(dry, division, ++calls); },
                             .division = {.batch = 8}});
        planner.fit(planner.floor_bytes());
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

/// Two layers, of which the second one may be left out, and their activation functions.
void train_layers(Context& dry, std::int64_t batch, bool second, bool tanh_first) {
    Parameters parameters(dry);
    const nn::Path path(parameters);
    const nn::Linear first(path / "first", 32, 32), last(path / "last", 32, 32);
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(dry);
            Tensor x = first(dry.from_host(std::vector<float>(static_cast<std::size_t>(batch * 32)), {batch, 32}));
            x = tanh_first ? tanh(x) : relu(x);
            loss = sum(second ? last(x) : x);
        }
        backward(loss);
    }
}

TEST(Planner, RefusesWorkloadsThatRecordAnotherProgramLater) {
    constexpr const char* kAnother = "does the same each time, and this one records another program: its op ";
    EXPECT_EQ(error_of_calls(
                  [](Context& dry, const Division& division, int) { train_layers(dry, division.batch, true, true); }),
              "");
    for (int from = 2; from <= 3; ++from) {
        EXPECT_THAT(error_of_calls([&](Context& dry, const Division& division, int call) {
                        train_layers(dry, division.batch, call < from, true);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("linear in last, and here it is sum")));
        EXPECT_THAT(error_of_calls([&](Context& dry, const Division& division, int call) {
                        train_layers(dry, division.batch, true, call < from);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("tanh, and here it is relu")));
        EXPECT_THAT(error_of_calls([&](Context& dry, const Division& division, int call) {
                        train_layers(dry, call < from ? division.batch : 7, true, true);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("0 is linear in first"), HasSubstr("with other shapes")));
    }
}

TEST(Planner, PassesTheErrorsOfAWorkloadAtAnyCall) {
    int calls = 0, throws_at = 0;
    Workload failing = workload();
    failing.run = [&](Context& dry, const Division& division) {
        train(dry, division);
        if (++calls != throws_at) return;
        const MicroBatchScope micro_batch(dry);
        const Tensor recorded = dry.scalar(1) + dry.scalar(2);
        throw std::runtime_error("the workload's own");
    };
    for (throws_at = 1; throws_at <= 3; ++throws_at) {
        calls = 0;
        EXPECT_THROW(Planner({}, failing), std::runtime_error);
    }
    throws_at = 0;
    Planner planner({}, failing);
    const std::size_t budget = planner.floor_bytes() + kPage;
    throws_at = calls + 1;
    EXPECT_THROW(planner.fit(budget), std::runtime_error);
    EXPECT_LE(planner.fit(budget).peak_bytes_reserved, budget) << "and goes on";
}

/// What is kept stays valid to the end of this process: the contexts of such rehearsals are not deleted.
TEST(Planner, RefusesWorkloadsThatKeepTensors) {
    static auto& kept = *new std::vector<Tensor>;
    EXPECT_THAT(error_of_calls([&](Context& dry, const Division& division, int) {
                    train(dry, division);
                    kept.push_back(dry.scalar(1));
                }),
                HasSubstr("1 tensor value of the dry context are kept beyond the program's end"));
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_THAT(error_of_calls([&](Context& dry, const Division&, int) {
                    kept.push_back(dry.scalar(1));
                    throw Error("the workload's own");
                }),
                HasSubstr("the workload's own"));
    EXPECT_EQ((kept[0] + kept[0]).shape(), Shape{});
}

TEST(Planner, RefusesBudgetsThatNoPlanKeepsWithin) {
    Workload large = workload();
    const std::vector<float> weights(1 << 22);
    large.run = [&](Context& dry, const Division& division) {
        const Tensor weight = dry.from_host(weights, {1 << 22}, Category::parameters);
        train(dry, division);
    };
    Planner planner({}, large);
    constexpr std::size_t kWeights = sizeof(float) << 22;
    ASSERT_GT(planner.floor_bytes(), kWeights);
    for (const std::size_t budget : {std::size_t{0}, std::size_t{1}, kPage - 1, kPage, kWeights}) {
        EXPECT_THROW(planner.fit(budget), BudgetTooSmall) << budget;
    }
}

}  // namespace
}  // namespace headroom::plan
