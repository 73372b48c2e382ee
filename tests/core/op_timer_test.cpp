// Which ops an OpTimer gives times for, and how many; not how long they are.
#include <chrono>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/op_timer.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {
namespace op_timer_test {

constexpr std::int64_t kWidth = 64;

/// gelu, tanh and sum of a product, `micro_batches` times; tanh's output is needed by nobody twice.
void train(Context& context, const Tensor& weight, int micro_batches) {
    const std::vector<float> ones(kWidth * kWidth, 0.01f);
    const Tensor x = context.from_host(ones, {kWidth, kWidth});
    for (int i = 0; i < micro_batches; ++i) {
        Tensor loss;
        {
            const RegionScope region(context, context.module_path("net"));
            loss = sum(tanh(gelu(matmul(x, weight))));
        }
        backward(loss);
    }
}

struct Measured {
    std::vector<OpTimes> ops;
    double wall;  ///< seconds
};

Measured measure(int micro_batches, const Policy& policy) {
    Context context = Context::cpu({.threads = 1});
    const Tensor weight =
        context.from_host(std::vector<float>(kWidth * kWidth, 0.02f), {kWidth, kWidth}).requires_grad_();
    context.module_path("net");
    context.policy("net", policy);
    OpTimer timer(context);
    train(context, weight, 1);
    EXPECT_EQ(timer.take().size(), 4u);
    EXPECT_TRUE(timer.take().empty());
    const auto begin = std::chrono::steady_clock::now();
    train(context, weight, micro_batches);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    return {timer.take(), wall.count()};
}

TEST(OpTimer, HasATimeForEachRunOfAnOp) {
    const Measured measured = measure(3, keep_all());
    ASSERT_EQ(measured.ops.size(), 4u);
    double sum = 0;
    for (const OpTimes& op : measured.ops) {
        EXPECT_EQ(op.forward.size(), 3u);
        EXPECT_EQ(op.backward.size(), 3u);
        EXPECT_TRUE(op.replays.empty());
        EXPECT_TRUE(op.backward_after_replay.empty());
        for (const double seconds : op.forward) EXPECT_GT(seconds, 0);
        sum += std::accumulate(op.forward.begin(), op.forward.end(), 0.0);
        sum += std::accumulate(op.backward.begin(), op.backward.end(), 0.0);
    }
    EXPECT_LE(sum, measured.wall) << "no moment is counted twice";
}

TEST(OpTimer, KnowsReplaysFromFirstRuns) {
    const Measured measured = measure(2, recompute_all());
    std::vector<std::size_t> replays, after;
    for (const OpTimes& op : measured.ops) {
        replays.push_back(op.replays.size());
        after.push_back(op.backward_after_replay.size());
        EXPECT_EQ(op.backward.size() + op.backward_after_replay.size(), 2u);
    }
    EXPECT_EQ(replays, (std::vector<std::size_t>{2, 2, 2, 0})) << "what leaves the region, the loss, is held";
    EXPECT_EQ(after, (std::vector<std::size_t>{0, 0, 2, 0})) << "tanh's backward asks for all at once";
}

TEST(OpTimer, LeavesOutOpsThatNobodyWants) {
    Context context = Context::cpu({.threads = 1});
    const Tensor weight = context.from_host(std::vector<float>(4, 0.02f), {2, 2}).requires_grad_();
    OpTimer timer(context);
    const Tensor y = tanh(weight);
    { const Tensor dropped = gelu(tanh(gelu(y))); }
    backward(sum(y));
    const std::vector<OpTimes> ops = timer.take();
    ASSERT_EQ(ops.size(), 2u);
    for (const OpTimes& op : ops) {
        EXPECT_EQ(op.forward.size(), 1u);
        EXPECT_EQ(op.backward.size(), 1u);
    }
}

TEST(OpTimer, LeavesTheTapeAsItWas) {
    Context context = Context::cpu({.threads = 1});
    const Tensor weight =
        context.from_host(std::vector<float>(kWidth * kWidth, 0.02f), {kWidth, kWidth}).requires_grad_();
    { const OpTimer timer(context); }
    train(context, weight, 1);
}

}  // namespace op_timer_test
}  // namespace headroom
