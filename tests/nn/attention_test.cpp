// Attention modules: cross-attention against its definition, rotary positions in self-attention.
#include <headroom/nn/attention.hpp>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/softmax.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {
namespace attention_test {

using Doubles = std::vector<double>;

class AttentionModules : public ::testing::Test {
  protected:
    Tensor normal(const Shape& shape) {
        Doubles values(static_cast<std::size_t>(shape.numel()));
        std::normal_distribution<double> normal;
        for (double& value : values) value = normal(random_);
        return context.from_host(values, shape);
    }
    /// Within the roundings of sums of `terms` terms.
    static void expect_near(const Tensor& got, const Tensor& want, int terms) {
        ASSERT_EQ(got.shape(), want.shape());
        const Doubles a = got.to_vector<double>(), b = want.to_vector<double>();
        double largest = 1;
        for (const double value : b) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 8 * terms * epsilon(Dtype::f64) * largest);
    }

    std::mt19937_64 random_{20240607};
    Context context = Context::cpu({.threads = 1, .seed = 1});
    Parameters parameters{context, {.dtype = Dtype::f64}};
    Path root{parameters};
};

TEST_F(AttentionModules, CrossAttentionIsItsDefinition) {
    const CrossAttention cross(root / "cross", {.width = 8, .heads = 4, .kv_heads = 2, .memory_width = 6});
    const Tensor x = normal({2, 3, 8}).requires_grad_(), memory = normal({2, 5, 6}).requires_grad_();
    const auto heads = [](const Tensor& all, std::int64_t count) {  // [2, T, count * 2] -> [2, count, T, 2]
        return all.reshape({2, all.size(1), count, 2}).permute({0, 2, 1, 3});
    };
    const Tensor q = heads(linear(x, cross.query.weight, cross.query.bias), 4);
    const Tensor kv = heads(linear(memory, cross.key_value.weight, cross.key_value.bias), 4);
    std::vector<Tensor> results;
    for (int head = 0; head < 4; ++head) {
        const Tensor k = kv.select(1, head / 2), v = kv.select(1, 2 + head / 2);
        const Tensor scores = matmul(q.select(1, head), k.transpose(1, 2)) / std::sqrt(2.0);
        results.push_back(matmul(softmax(scores), v));
    }
    const Tensor expected = linear(cat(results, 2), cross.projection.weight, cross.projection.bias);
    backward(sum(square(expected)));
    const Tensor dx = x.grad().clone(), dmemory = memory.grad().clone();
    x.zero_grad(), memory.zero_grad();
    const Tensor y = cross(x, memory);
    expect_near(y, expected, 40);
    backward(sum(square(y)));
    expect_near(x.grad(), dx, 400);
    expect_near(memory.grad(), dmemory, 400);
}

TEST_F(AttentionModules, CrossAttentionTakesKeysAndValuesThatAreKnown) {
    const CrossAttention cross(root / "cross", {.width = 8, .heads = 2});
    const Tensor x = normal({1, 4, 8}), memory = normal({1, 5, 8});
    const NoGradGuard no_grad(context);
    const KeyValue known = cross.keys_and_values(memory);
    const Tensor whole = cross(x, memory);
    for (std::int64_t t = 0; t < 4; ++t)
        expect_near(cross(x[{0, Slice(t, t + 1)}].unsqueeze(0), known), whole[{0, Slice(t, t + 1)}].unsqueeze(0), 8);
}

TEST_F(AttentionModules, MasksLeaveOutPositions) {
    const CrossAttention cross(root / "cross", {.width = 8, .heads = 2});
    const SelfAttention self(root / "self", {.width = 8, .heads = 2, .causal = false, .rotary = RotaryOptions{}});
    const Tensor x = normal({2, 4, 8}), memory = normal({2, 5, 8});
    const NoGradGuard no_grad(context);
    const AttentionMask mask{.lengths = context.from_host(std::vector<std::int64_t>{3, 1}, {2})};
    const Tensor crossed = cross(x, memory, mask), itself = self(x, mask);
    for (std::int64_t b = 0; b < 2; ++b) {
        const Slice one(b, b + 1), seen(0, b == 0 ? 3 : 1);
        expect_near(crossed[{one}], cross(x[{one}], memory[{one, seen}]), 16);
        expect_near(itself[{one, seen}], self(x[{one, seen}]), 16);
    }
}

TEST_F(AttentionModules, DropProbabilitiesWhileTraining) {
    const SelfAttention self(root / "self", {.width = 8, .heads = 2, .dropout = 0.5});
    const Tensor x = normal({2, 4, 8});
    EXPECT_NE(self(x).to_vector<double>(), self(x).to_vector<double>());
    parameters.train(false);
    EXPECT_EQ(self(x).to_vector<double>(), self(x).to_vector<double>());
}

TEST_F(AttentionModules, RefuseWidthsThatHeadsDoNotDivideAndDroppingAll) {
    EXPECT_THROW(CrossAttention(root / "a", {.width = 8, .heads = 3}), ShapeError);
    EXPECT_THROW(CrossAttention(root / "b", {.width = 8, .heads = 0}), ShapeError);
    EXPECT_THROW(CrossAttention(root / "c", {.width = 8, .heads = 4, .kv_heads = 3}), ShapeError);
    EXPECT_THROW(SelfAttention(root / "d", {.width = 8, .heads = 0}), ShapeError);
    EXPECT_THROW(SelfAttention(root / "e", {.width = 8, .heads = 2, .dropout = 1.0}), Error);
}

TEST_F(AttentionModules, RotaryProductsDependOnDistances) {
    const Tensor q = normal({1, 1, 1, 8}), k = normal({1, 1, 1, 8});
    const auto product = [&](std::int64_t at, std::int64_t of) { return sum(rotary(q, at) * rotary(k, of)).item(); };
    EXPECT_NEAR(product(7, 3), product(104, 100), 1e3 * epsilon(Dtype::f64));
    EXPECT_NE(product(7, 3), product(8, 3));
}

TEST_F(AttentionModules, SelfAttentionWithRotaryPositionsTurnsQueriesAndKeys) {
    for (const bool interleaved : {false, true}) {
        const RotaryOptions options{.base = 100, .interleaved = interleaved};
        Parameters own(context, {.name = "own", .dtype = Dtype::f64});
        const SelfAttention attention(Path(own), {.width = 8, .heads = 2, .kv_heads = 1, .rotary = options});
        const Tensor x = normal({2, 5, 8});
        const Tensor split = linear(x, attention.qkv.weight, attention.qkv.bias).reshape({2, 5, 4, 4});
        const Tensor q = rotary(split.slice(2, 0, 2), 0, options), k = rotary(split.slice(2, 2, 3), 0, options);
        const Tensor mixed = headroom::attention(q, k, split.slice(2, 3, 4), true).reshape({2, 5, 8});
        const Tensor expected = linear(mixed, attention.projection.weight, attention.projection.bias);
        expect_near(attention(x), expected, 16);

        const NoGradGuard no_grad(context);
        KeyValue cache;
        for (std::int64_t t = 0; t < 5; ++t) {  // with a cache positions count on
            expect_near(attention(x[{Slice(), Slice(t, t + 1)}], &cache), expected[{Slice(), Slice(t, t + 1)}], 16);
        }
    }
}

}  // namespace attention_test
}  // namespace headroom::nn
