// The fused feed-forward: the composition's values and gradients, and less memory.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>

namespace headroom {
namespace feed_forward_test {

std::vector<double> waves(std::int64_t count, double phase) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(phase + 1.3 * static_cast<double>(i)));
    return values;
}

void expect_near(const Tensor& got, const Tensor& want, double bound) {
    const auto a = got.to_vector<double>(), b = want.to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << "element " << i;
}

Tensor activated(Activation activation, Tensor x) {
    if (activation == Activation::relu) return relu(std::move(x));
    return gelu(std::move(x), activation == Activation::gelu_tanh ? Gelu::tanh : Gelu::erf);
}

struct Layers {
    Layers(Context& context, std::int64_t in, std::int64_t hidden, std::int64_t out, Dtype dtype = Dtype::f64) {
        const auto leaf = [&](const Shape& shape, double phase) {
            Tensor x = context.from_host(waves(shape.numel(), phase), shape);
            return (dtype == Dtype::f64 ? x : context.from_host(x.to_vector<float>(), shape)).requires_grad_();
        };
        up = leaf({hidden, in}, 1);
        up_bias = leaf({hidden}, 2);
        down = leaf({out, hidden}, 3);
        down_bias = leaf({out}, 4);
    }
    Tensor fused(Tensor x, Activation activation = Activation::gelu_tanh) const {
        return feed_forward(std::move(x), up, up_bias, down, down_bias, activation);
    }
    Tensor composed(Tensor x, Activation activation) const {
        return linear(activated(activation, linear(std::move(x), up, up_bias)), down, down_bias);
    }
    std::vector<Tensor> all() const { return {up, up_bias, down, down_bias}; }

    Tensor up, up_bias, down, down_bias;
};

struct Layout {
    const char* name;
    Shape shape;
    Tensor (*view)(const Tensor& x);
};

/// Inputs whose leading axes can and can't be seen as one, of one chunk and of several.
const Layout kLayouts[] = {
    {"dense", {2, 3, 5}, [](const Tensor& x) { return x; }},
    {"several chunks", {9, 79, 5}, [](const Tensor& x) { return x; }},
    {"transposed time and batch", {3, 2, 5}, [](const Tensor& x) { return x.transpose(0, 1); }},
    {"transposed, several chunks", {7, 101, 5}, [](const Tensor& x) { return x.transpose(0, 1); }},
    {"every other position", {2, 6, 5}, [](const Tensor& x) { return x.slice(1, 0, 6, 2); }},
    {"part of the features", {2, 3, 9}, [](const Tensor& x) { return x.slice(2, 2, 7); }},
    {"one vector", {3, 5}, [](const Tensor& x) { return x.select(0, 1); }},
};

TEST(FeedForward, IsTheCompositionInAnyLayout) {
    Context context = Context::cpu({.threads = 2});
    for (const Activation activation : {Activation::relu, Activation::gelu_tanh, Activation::gelu_erf}) {
        for (const Layout& layout : kLayouts) {
            SCOPED_TRACE(layout.name);
            const Layers fused(context, 5, 768, 3), composed(context, 5, 768, 3);
            const std::vector<double> values = waves(layout.shape.numel(), 0);
            const Tensor x = context.from_host(values, layout.shape).requires_grad_();
            const Tensor x2 = context.from_host(values, layout.shape).requires_grad_();
            const Tensor y = fused.fused(layout.view(x), activation);
            const Tensor y2 = composed.composed(layout.view(x2), activation);
            expect_near(y, y2, 1e-11);
            const Tensor dy = context.from_host(waves(y.numel(), 5), y.shape());
            backward({sum(y * dy), sum(y2 * dy)}, {1.0, 1.0});
            expect_near(x.grad(), x2.grad(), 1e-10);
            for (std::size_t i = 0; i < 4; ++i) expect_near(fused.all()[i].grad(), composed.all()[i].grad(), 1e-10);
        }
    }
}

constexpr std::int64_t kRows = 1024, kHidden = 1024;
constexpr std::size_t kHiddenBytes = std::size_t{kRows} * kHidden * sizeof(float);

class FeedForwardMemory : public ::testing::Test {
  protected:
    FeedForwardMemory() {
        context.policy("region", recompute_all());
        context.module_path("region");
    }
    std::size_t allocated() { return context.memory().statistics().allocated; }
    std::size_t peak_above(std::size_t before) { return context.memory().statistics().peak_allocated - before; }
    Tensor rows(std::int64_t width) {
        return context.from_host(std::vector<float>(static_cast<std::size_t>(kRows * width), 0.1f), {kRows, width});
    }

    Context context = Context::cpu({.threads = 2});
};

TEST_F(FeedForwardMemory, OneHiddenArrayIsKeptAndNoneWithoutBackward) {
    const Layers layers(context, 8, kHidden, 8, Dtype::f32);
    const Tensor x = rows(8);
    layers.fused(x);  // what stays: the library's own
    const std::size_t before = allocated();
    {
        const Tensor y = layers.fused(x);
        EXPECT_GE(allocated() - before, kHiddenBytes);
        EXPECT_LT(allocated() - before, kHiddenBytes + kHiddenBytes / 8);
    }
    const NoGradGuard no_grad(context);
    context.memory().reset_peak();
    layers.fused(x);
    EXPECT_LT(peak_above(before), kHiddenBytes * 3 / 4);
}

/// An output far larger than all the rest: computed again, it would double what backward needs.
TEST_F(FeedForwardMemory, AReplayDoesNotComputeTheOutput) {
    constexpr std::int64_t out = 4096;
    const Layers layers(context, 8, 16, out, Dtype::f32);
    Tensor loss;
    {
        const RegionScope region(context, context.memory().intern("region"));
        loss = sum(layers.fused(rows(8)));
    }
    const std::size_t output_bytes = std::size_t{kRows} * out * sizeof(float), before = allocated();
    context.memory().reset_peak();
    backward(loss);
    EXPECT_EQ(context.tape().statistics().replayed, 1u);
    EXPECT_GE(peak_above(before), output_bytes) << "its gradient is there";
    EXPECT_LT(peak_above(before), output_bytes + output_bytes / 4);
}

TEST_F(FeedForwardMemory, BackwardNeedsAFractionOfTheHiddenLayer) {
    const Layers layers(context, 8, kHidden, 8, Dtype::f32);
    const Tensor loss = sum(layers.fused(rows(8)));
    const std::size_t before = allocated();
    context.memory().reset_peak();
    backward(loss);
    EXPECT_LT(peak_above(before), kHiddenBytes / 2) << "beside the one that was kept";
}

}  // namespace feed_forward_test
}  // namespace headroom
