// What a planner refuses: workloads that can't be planned, programs that differ from call to call, budgets below all
// plans.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/plan/planner.hpp>
#include <headroom/tests/plan/small_gpt.hpp>

namespace headroom::plan {
namespace planner_refusals_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(Planner, RefusesWorkloadsThatCanNotBePlanned) {
    const auto error_of = [](const std::function<void(Context&)>& run) -> std::string {
        try {
            Planner planner({}, {.run = [&](Context& dry, const MicroBatching&) { run(dry); }});
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    };
    EXPECT_THAT(error_of([](Context& dry) { dry.scalar(1) + dry.scalar(2); }), HasSubstr("must run backward"));
    EXPECT_THAT(error_of([](Context& dry) {
                    Parameters parameters(dry);
                    nn::Gpt model(parameters, small_gpt());
                    const std::vector<std::int64_t> ids(8 * 64, 1);
                    const Loss loss = model.loss(dry.from_host(ids, {8, 64}), dry.from_host(ids, {8, 64}));
                    backward(loss.sum());
                }),
                HasSubstr("MicroBatchScope"));
    EXPECT_THAT(error_of([](Context&) { throw Error("the workload's own"); }), HasSubstr("the workload's own"));
}

/// What a planner throws whose workload is `run`, which is given the number of its call, from 1.
std::string error_of_calls(const std::function<void(Context& dry, const MicroBatching& division, int call)>& run) {
    int calls = 0;
    try {
        Planner planner({}, {.run = [&](Context& dry, const MicroBatching& division) { run(dry, division, ++calls); },
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
    constexpr const char* kAnother = "must do the same each time, but its program changed: its op ";
    EXPECT_EQ(error_of_calls([](Context& dry, const MicroBatching& division, int) {
                  train_layers(dry, division.batch, true, true);
              }),
              "");
    for (int from = 2; from <= 3; ++from) {
        EXPECT_THAT(error_of_calls([&](Context& dry, const MicroBatching& division, int call) {
                        train_layers(dry, division.batch, call < from, true);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("linear in last, but here it is sum")));
        EXPECT_THAT(error_of_calls([&](Context& dry, const MicroBatching& division, int call) {
                        train_layers(dry, division.batch, true, call < from);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("tanh, but here it is relu")));
        EXPECT_THAT(error_of_calls([&](Context& dry, const MicroBatching& division, int call) {
                        train_layers(dry, call < from ? division.batch : 7, true, true);
                    }),
                    AllOf(HasSubstr(kAnother), HasSubstr("0 is linear in first"), HasSubstr("with other shapes")));
    }
}

TEST(Planner, PassesTheErrorsOfAWorkloadAtAnyCall) {
    int calls = 0, throws_at = 0;
    Workload failing = small_gpt_workload();
    failing.run = [&](Context& dry, const MicroBatching& division) {
        train_small_gpt(dry, division);
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
    EXPECT_THAT(error_of_calls([&](Context& dry, const MicroBatching& division, int) {
                    train_small_gpt(dry, division);
                    kept.push_back(dry.scalar(1));
                }),
                HasSubstr("1 tensor value of the dry context outlived the program"));
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_THAT(error_of_calls([&](Context& dry, const MicroBatching&, int) {
                    kept.push_back(dry.scalar(1));
                    throw Error("the workload's own");
                }),
                HasSubstr("the workload's own"));
    EXPECT_EQ((kept[0] + kept[0]).shape(), Shape{});
}

TEST(Planner, RefusesBudgetsThatNoPlanKeepsWithin) {
    Workload large = small_gpt_workload();
    const std::vector<float> weights(1 << 22);
    large.run = [&](Context& dry, const MicroBatching& division) {
        const Tensor weight = dry.from_host(weights, {1 << 22}, Category::parameters);
        train_small_gpt(dry, division);
    };
    Planner planner({}, large);
    constexpr std::size_t kWeights = sizeof(float) << 22;
    ASSERT_GT(planner.floor_bytes(), kWeights);
    for (const std::size_t budget : {std::size_t{0}, std::size_t{1}, kPage - 1, kPage, kWeights}) {
        EXPECT_THROW(planner.fit(budget), BudgetTooSmall) << budget;
    }
}

}  // namespace planner_refusals_test
}  // namespace headroom::plan
