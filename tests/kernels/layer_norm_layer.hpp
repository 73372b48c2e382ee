#pragma once
// A layer for tests of layer_norm, on whichever device: its arrays, and how far results may be from f64.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

constexpr double kLayerNormEpsilon = 1e-5;

/// All arrays of one layer, random.
struct LayerNormLayer {
    LayerNormLayer(Dtype dtype, const Shape& shape, Layout layout, std::mt19937_64& random)
        : x(dtype, shape, layout),
          gamma(dtype, {shape.back()}, layout),
          beta(dtype, {shape.back()}, layout),
          y(dtype, shape, layout),
          dy(dtype, shape, layout),
          mean(compute_dtype(dtype), {shape.numel() / shape.back()}),
          rstd(compute_dtype(dtype), {shape.numel() / shape.back()}) {
        x.fill(random, 2, 3);
        gamma.fill(random, 1, 0.5);
        beta.fill(random);
        dy.fill(random);
    }
    /// The same numbers in another dtype.
    LayerNormLayer(const LayerNormLayer& other, Dtype dtype)
        : x(converted(other.x, dtype)),
          gamma(converted(other.gamma, dtype)),
          beta(converted(other.beta, dtype)),
          y(converted(other.y, dtype)),
          dy(converted(other.dy, dtype)),
          mean(dtype, other.mean.view().shape),
          rstd(dtype, other.rstd.view().shape) {}

    void forward(CpuStream& stream, bool affine = true) {
        kernels::layer_norm(stream, x, affine ? &gamma.view() : nullptr, affine ? &beta.view() : nullptr,
                            kLayerNormEpsilon, y, mean, rstd);
    }
    void backward(CpuStream& stream, const kernels::LayerNormGradients& gradients, bool affine = true) const {
        test::run<LayerNormGradientPlan>(stream, x, dy, affine ? &gamma.view() : nullptr, mean, rstd, gradients);
    }

    TestArray x, gamma, beta, y, dy, mean, rstd;
};

/// y, mean and rstd against their definition in f64.
inline void expect_layer_norm(const LayerNormLayer& layer, bool affine) {
    const std::int64_t length = layer.x.view().shape.back();
    const double unit = epsilon(compute_dtype(layer.x.view().dtype));
    for (std::int64_t row = 0; row < layer.mean.numel(); ++row) {
        const auto x = [&](std::int64_t i) { return layer.x.get(row * length + i); };
        long double sum = 0, squares = 0;  // of thousands of elements, also in f64
        double magnitude = 0;
        for (std::int64_t i = 0; i < length; ++i) sum += x(i);
        const auto mean = static_cast<double>(sum / length);
        for (std::int64_t i = 0; i < length; ++i) {
            squares += std::pow(x(i) - mean, 2);
            magnitude = std::max(magnitude, std::abs(x(i)));
        }
        const double rstd = 1 / std::sqrt(static_cast<double>(squares / length) + kLayerNormEpsilon);
        ASSERT_NEAR(layer.mean.get(row), mean, 32 * unit * magnitude);
        ASSERT_NEAR(layer.rstd.get(row), rstd, 64 * unit * rstd * (1 + magnitude * rstd));
        for (std::int64_t i = 0; i < length; ++i) {
            const double g = affine ? layer.gamma.get(i) : 1, b = affine ? layer.beta.get(i) : 0;
            const double h = (x(i) - mean) * rstd, value = h * g + b;
            const double error = 64 * unit * (magnitude * rstd + 1) * (1 + std::abs(h)) * std::abs(g);
            ASSERT_NEAR(layer.y.get(row * length + i), value,
                        error + unit * std::abs(b) + rounding(layer.y.view().dtype, value));
        }
    }
}

/// Gradients that a test has; what it leaves out is not looked at. `*_before`: what stood there and was added to.
struct LayerNormResults {
    const TestArray* x = nullptr;
    const TestArray* gamma = nullptr;
    const TestArray* beta = nullptr;
    double x_before = 0;
    double gamma_before = 0;
};

/// Gradients of a layer in `dtype` against those of the CPU in f64, where `wide` has the same numbers.
inline void expect_layer_norm_gradients(const LayerNormLayer& wide, Dtype dtype, const LayerNormResults& results) {
    const Shape shape = wide.x.view().shape, last{shape.back()};
    TestArray dx(Dtype::f64, shape), dgamma(Dtype::f64, last), dbeta(Dtype::f64, last);
    CpuStream cpu;
    wide.backward(cpu, {.x = &dx.view(), .gamma = &dgamma.view(), .beta = &dbeta.view()});
    const double unit = epsilon(compute_dtype(dtype));
    const std::int64_t length = shape.back(), rows = shape.numel() / length;
    for (std::int64_t i = 0; results.x && i < dx.numel(); ++i) {
        const double rstd = wide.rstd.get(i / length), value = dx.get(i) + results.x_before;
        // Inputs around 5 make h uncertain by 5 * rstd units; everything else is around 1.
        const double bound = 256 * unit * rstd * (1 + 5 * rstd) * (4 + std::abs(value));
        ASSERT_NEAR(results.x->get(i), value, bound + rounding(results.x->view().dtype, value)) << i;
    }
    double spread = 1;
    for (std::int64_t row = 0; row < rows; ++row) spread += 4 * (1 + 5 * wide.rstd.get(row));
    const auto check = [&](const TestArray* found, const TestArray& expected, double before) {
        for (std::int64_t i = 0; found && i < length; ++i) {
            const double value = before + expected.get(i);
            ASSERT_NEAR(found->get(i), value, 64 * unit * spread + rounding(found->view().dtype, value)) << i;
        }
    };
    check(results.gamma, dgamma, results.gamma_before);
    check(results.beta, dbeta, 0);
}

}  // namespace headroom::kernels::test
