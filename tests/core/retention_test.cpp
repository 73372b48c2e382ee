// What backward keeps of the arrays that it brought back, and what `recompute_cheap` says of ops with several inputs.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {
namespace retention_test {

constexpr std::int64_t kRows = 64, kWidth = 32;

struct Layers {
    explicit Layers(Context& its) : context(its) {}
    Tensor weight(std::int64_t in, std::int64_t out) { return randn(context, {in, out}).detach().requires_grad_(); }
    Tensor layer(const Tensor& x, std::int64_t out) { return gelu(matmul(x, weight(x.size(-1), out))); }

    Context& context;
};

/// The peak of a net whose first layer's output, or the last but one's, is joined to the last one's; in its middle is a
/// layer so wide that its gradients are the peak.
std::size_t peak_of_net(int layers, bool skip) {
    Context context = Context::dry({});
    context.policy("net", recompute_cheap());
    Layers net(context);
    Tensor loss;
    {
        const RegionScope region(context, context.module_path("net"));
        const Tensor first = net.layer(net.weight(kRows, kWidth), kWidth);
        Tensor x = first, before;
        for (int i = 0; i < layers; ++i) {
            before = x;
            x = net.layer(x, i == layers / 2 ? 64 * kWidth : kWidth);
        }
        loss = sum(matmul(cat({skip ? first : before, x}, 1), net.weight(2 * kWidth, kWidth)));
    }
    backward(loss);
    return context.memory().statistics().peak_allocated;
}

TEST(Retention, WhatCrossesTheModelIsNotThereInBetween) {
    const std::size_t gradient = kRows * kWidth * sizeof(float);  // it waits, the value does not
    EXPECT_EQ(peak_of_net(24, true), peak_of_net(24, false) + gradient);
}

/// The number of ops that backward runs again where a join's first operand was made `layers` layers before.
std::uint64_t replays_of_net(int layers) {
    Context context = Context::cpu({.threads = 1});
    context.policy("net", recompute_cheap());
    Layers net(context);
    Tensor loss;
    {
        const RegionScope region(context, context.module_path("net"));
        const Tensor first = net.layer(net.weight(kRows, kWidth), kWidth);
        Tensor x = first;
        for (int i = 0; i < layers; ++i) x = net.layer(x, kWidth);
        loss = sum(matmul(cat({first, x}, 1), net.weight(2 * kWidth, kWidth)));
    }
    backward(loss);
    return context.tape().statistics().replayed;
}

TEST(Retention, WhatIsNeededSoonStays) {
    // Each layer's gelu and the join; far away, the first gelu once more.
    EXPECT_EQ(replays_of_net(2), 4u);
    EXPECT_EQ(replays_of_net(24), 27u);
}

TEST(RecomputeCheap, GoesByWhatItKeepsInstead) {
    Context context = Context::cpu({.threads = 1});
    context.policy("net", recompute_cheap());
    Layers net(context);
    const auto replayed = [&](auto&& program) {
        const std::uint64_t before = context.tape().statistics().replayed;
        Tensor loss;
        {
            const RegionScope region(context, context.module_path("net"));
            loss = program(matmul(net.weight(kRows, kRows), net.weight(kRows, kWidth)));
        }
        backward(loss);
        return context.tape().statistics().replayed - before;
    };
    const auto use = [&](const Tensor& x) { return sum(matmul(x, net.weight(x.size(-1), kWidth))); };
    const auto product = [&] { return matmul(net.weight(kRows, kRows), net.weight(kRows, kWidth)); };
    EXPECT_EQ(replayed([&](Tensor x) { return use(gelu(x)); }), 1u);
    EXPECT_EQ(replayed([&](Tensor x) { return use(x + product()); }), 0u) << "two operands would stay for one sum";
    EXPECT_EQ(replayed([&](Tensor x) {
                  const Tensor other = use(x);  // keeps x
                  return other + use(x + product());
              }),
              0u)
        << "an operand would stay for a sum of its size";
    EXPECT_EQ(replayed([&](Tensor x) {
                  const Tensor y = product(), others = use(x) + use(y);
                  return others + use(x + y);
              }),
              1u)
        << "both operands are there anyway";
    EXPECT_EQ(replayed([&](Tensor x) {
                  const Tensor y = product(), other = use(x);
                  return other + use(cat({x, y}, 1));
              }),
              1u)
        << "half of it stays in its place";
    EXPECT_EQ(replayed([&](Tensor x) { return use(cat({x, product()}, 1)); }), 0u) << "as much would stay in its place";
    EXPECT_EQ(replayed([&](Tensor x) {
                  Tensor sums = use(x);
                  for (int i = 0; i < 5; ++i) {
                      const Tensor other = product();
                      sums = sums + use(other);
                      x = x + other;
                      sums = sums + use(x);
                  }
                  return sums;
              }),
              4u)
        << "of a chain each third one stays";
}

}  // namespace retention_test
}  // namespace headroom
