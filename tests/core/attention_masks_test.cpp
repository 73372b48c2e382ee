// Attention with masks against PyTorch's, and what dropout of probabilities draws.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace attention_masks_test {

const test::Reference& reference() {
    static const test::Reference file(test::source_path("tests/reference/attention.safetensors"));
    return file;
}

class AttentionMasks : public ::testing::Test {
  protected:
    Tensor of(const std::string& name, Dtype dtype) {
        const test::ReferenceTensor& tensor = reference().at(name);
        const std::vector<double>& values = tensor.values;
        if (tensor.dtype == "I64")
            return context.from_host(std::vector<std::int64_t>(values.begin(), values.end()), tensor.shape);
        const Tensor x = context.from_host(values, tensor.shape);
        return cast(x, tensor.dtype == "U8" ? Dtype::boolean : dtype);
    }
    /// The file's [B, H, T, D] as ours.
    static Tensor turned(const Tensor& x) { return x.transpose(1, 2); }

    /// Sums of up to 70 terms, of which none is large, one after the other.
    void expect_agrees(const std::string& name, const AttentionOptions& options, Dtype dtype) {
        const auto input = [&](const char* part) { return of(name + "/" + part, dtype).detach().requires_grad_(); };
        const Tensor q = input("q"), k = input("k"), v = input("v");
        const Tensor y = turned(attention(turned(q), turned(k), turned(v), options));
        backward(sum(y * of(name + "/dy", dtype)));
        const auto close = [&](const char* part, const Tensor& got) {
            const std::vector<double> a = got.to_vector<double>();
            EXPECT_LE(test::error_in_epsilons(a, reference().at(name + "/" + part).values, epsilon(dtype)), 8.0 * 78)
                << name << " " << part << " " << kernels::name(dtype);
        };
        close("o", y);
        close("dq", q.grad());
        close("dk", k.grad());
        close("dv", v.grad());
    }

    Context context = Context::cpu({.threads = 2, .seed = 3});
};

TEST_F(AttentionMasks, AgreeWithPyTorch) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
        expect_agrees("boolean", {.mask = {.scores = of("boolean/scores", dtype)}}, dtype);
        expect_agrees("bias", {.mask = {.scores = of("bias/scores", dtype)}}, dtype);
        expect_agrees("keys", {.mask = {.keys = of("keys/keys", dtype)}}, dtype);
        expect_agrees("lengths", {.mask = {.lengths = of("lengths/lengths", dtype)}}, dtype);
        expect_agrees("causal", {.causal = true, .mask = {.lengths = of("causal/lengths", dtype)}}, dtype);
    }
}

TEST_F(AttentionMasks, AQueryThatSeesNothingGivesZeroAndHasNoGradient) {
    const Tensor x = randn(context, {2, 4, 1, 8}).detach().requires_grad_();
    const Tensor nothing = full(context, {1, 4}, -INFINITY);
    for (const AttentionMask& mask :
         {AttentionMask{.scores = nothing}, AttentionMask{.keys = zeros(context, {2, 4}, Dtype::boolean)},
          AttentionMask{.lengths = zeros(context, {2}, Dtype::i64)}}) {
        const Tensor y = attention(x, x, x, {.mask = mask});
        EXPECT_THAT(y.to_vector<float>(), ::testing::Each(0.0f));
        backward(sum(y));
        EXPECT_THAT(x.grad().to_vector<float>(), ::testing::Each(0.0f));
        x.zero_grad();
    }
}

/// With the unit matrix as values the result is the probabilities.
TEST_F(AttentionMasks, DropoutDropsProbabilitiesAndScalesTheOthers) {
    constexpr std::int64_t n = 96;
    const double p = 0.3;
    const Tensor q = randn(context, {3, n, 2, n}),
                 unit = cast(eq(arange(context, 0, n).unsqueeze(1), arange(context, 0, n)), Dtype::f32);
    const Tensor v = expand(unit.reshape({1, n, 1, n}), {3, n, 2, n});
    const std::vector<float> all = attention(q, q, v, {}).to_vector<float>();
    const std::vector<float> kept = attention(q, q, v, {.dropout = p}).to_vector<float>();
    std::int64_t dropped = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (kept[i] == 0) {
            ++dropped;
        } else {
            ASSERT_NEAR(kept[i], all[i] / (1 - p), 4 * epsilon(Dtype::f32) * all[i]);
        }
    }
    const double count = static_cast<double>(all.size());
    EXPECT_NEAR(static_cast<double>(dropped), p * count, 5 * std::sqrt(count * p * (1 - p)));
    EXPECT_NE(attention(q, q, v, {.dropout = p}).to_vector<float>(), kept);  // the next counter
    EXPECT_THAT(attention(q, q, v, {.dropout = 1}).to_vector<float>(), ::testing::Each(0.0f));
}

/// The draws follow from the counter and from batch, head, query and key alone.
TEST_F(AttentionMasks, PackedOperandsDropWhatSeparateOnesDo) {
    const Tensor qkv = randn(context, {2, 70, 3 * 2 * 4});
    const auto in = [&](int threads, auto&& call) {
        Context other = Context::cpu({.threads = threads, .seed = 8});
        return call(other.from_host(qkv.to_vector<float>(), qkv.shape())).template to_vector<float>();
    };
    const auto packed = in(1, [](const Tensor& x) { return attention_packed(x, 2, 2, {.dropout = 0.2}); });
    const auto apart = in(3, [](const Tensor& x) {
        const std::vector<Tensor> parts = x.reshape({2, 70, 6, 4}).split(2, 2);
        return attention(parts[0], parts[1], parts[2], {.dropout = 0.2});
    });
    EXPECT_EQ(packed, apart);
}

TEST_F(AttentionMasks, RefuseWhatTheyCannotBe) {
    const Tensor x = randn(context, {2, 3, 1, 4});
    const auto message = [&](AttentionOptions options) -> std::string {
        try {
            attention(x, x, x, std::move(options));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const Tensor bias = zeros(context, {3, 3}), keys = ones(context, {2, 3}, Dtype::boolean);
    using ::testing::HasSubstr;
    EXPECT_THAT(message({.mask = {.scores = bias, .keys = keys}}), HasSubstr("combine them into one mask of scores"));
    EXPECT_THAT(message({.mask = {.scores = zeros(context, {3, 3}).detach().requires_grad_()}}),
                HasSubstr("call detach() on it"));
    EXPECT_THAT(message({.mask = {.keys = bias}}), HasSubstr("the mask of keys must be bool, got f32"));
    EXPECT_THAT(message({.mask = {.keys = ones(context, {3}, Dtype::boolean)}}), HasSubstr("must be [B, S]"));
    EXPECT_THAT(message({.mask = {.keys = ones(context, {2, 4}, Dtype::boolean)}}),
                HasSubstr("must broadcast to [2, 1, 3, 3]"));
    EXPECT_THAT(message({.mask = {.lengths = full(context, {2}, 4, Dtype::i64)}}),
                HasSubstr("length 4 at position 0 is outside of [0, 4)"));
    EXPECT_THAT(message({.dropout = -0.1}), HasSubstr("must be in [0, 1]"));
}

}  // namespace attention_masks_test
}  // namespace headroom
