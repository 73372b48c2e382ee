// The largest size that fits, by plans.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/plan/largest.hpp>

namespace headroom::plan {
namespace largest_test {

TEST(LargestSize, IsTheLastThatFits) {
    for (const std::int64_t least : {1, 3}) {
        for (std::int64_t last = least; last <= 20; ++last) {
            std::vector<std::int64_t> asked;
            const auto fits = [&](std::int64_t size) {
                asked.push_back(size);
                return size <= last;
            };
            EXPECT_EQ(largest_size(least, 20, fits), last) << "from " << least;
            EXPECT_THAT(asked, testing::Each(testing::AllOf(testing::Ge(least), testing::Le(20))));
            EXPECT_LE(asked.size(), 10u);
        }
    }
    EXPECT_EQ(largest_size(3, 20, [](std::int64_t) { return false; }), std::nullopt);
    EXPECT_EQ(largest_size(7, 7, [](std::int64_t) { return true; }), 7);
    const std::int64_t most = INT64_MAX;
    EXPECT_EQ(largest_size(1, most, [](std::int64_t) { return true; }), most);
}

TEST(LargestSize, RefusesRangesWithoutSizes) {
    const auto fits = [](std::int64_t) { return true; };
    EXPECT_THROW(largest_size(0, 3, fits), Error);
    EXPECT_THROW(largest_size(4, 3, fits), Error);
}

/// Twelve layers on that many rows of 64 KiB each.
Workload layers(std::int64_t rows) {
    const auto run = [](Context& dry, const MicroBatching& division) {
        constexpr std::int64_t kWidth = 1 << 14;
        Parameters parameters(dry);
        const Tensor bias = parameters.create("bias", {kWidth}, nn::init::zeros());
        optim::Sgd optimizer(parameters);
        optim::GradientAccumulator accumulator(parameters, optimizer);
        for (int step = 0; step < 2; ++step) {
            accumulator.accumulate([&] {
                Tensor x = randn(dry, {division.batch, kWidth});
                for (int layer = 0; layer < 12; ++layer) x = tanh(x + bias);
                return Loss(sum(x), 1);
            });
            accumulator.step(1e-3);
        }
    };
    return {.run = run, .division = {.batch = rows}};
}

TEST(Largest, HasAPlanWithinTheBudget) {
    constexpr std::size_t kBudget = 40 << 20;
    const std::optional<Largest> found = largest({}, kBudget, layers, 1, 1000);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->plan.division.batch, found->size);
    EXPECT_LE(found->plan.peak_bytes_reserved, kBudget);
    EXPECT_GT(found->plan.replayed_ops, 0u) << "what keeping all leaves room for is less";
    EXPECT_EQ(found->plan.step_seconds, Planner({}, layers(found->size)).fit(kBudget).step_seconds);
    EXPECT_GT(Planner({}, layers(found->size + 1)).floor_bytes(), kBudget);
    const std::size_t floor = Planner({}, layers(found->size)).floor_bytes();
    EXPECT_TRUE(largest({}, floor, layers, found->size, found->size)) << "a budget may be the least that there is";
}

TEST(Largest, IsNoneWhereTheLeastDoesNotFit) {
    EXPECT_FALSE(largest({}, 40 << 20, layers, 1000, 2000));
    EXPECT_EQ(largest({}, 40 << 20, layers, 1, 5)->size, 5);
}

TEST(Largest, SizesThatAreTooSmallToBeRunSayNothingOfLargerOnes) {
    const auto up_to = [](std::int64_t most) {
        return [most](std::int64_t size) { return size < 3 ? std::nullopt : std::optional(size <= most); };
    };
    EXPECT_EQ(largest_size(1, 100, up_to(20)), 20);
    EXPECT_EQ(largest_size(1, 100, up_to(2)), std::nullopt);
}

}  // namespace largest_test
}  // namespace headroom::plan
