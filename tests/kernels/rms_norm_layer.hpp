#pragma once
// A layer for tests of rms_norm, on whichever device: its arrays, and how far results may be from f64.
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels::test {

constexpr double kRmsNormEpsilon = 1e-5;

/// All arrays of one layer, random.
struct RmsNormLayer {
    RmsNormLayer(Dtype dtype, const Shape& shape, Layout layout, std::mt19937_64& random)
        : x(dtype, shape, layout),
          gamma(dtype, {shape.back()}, layout),
          y(dtype, shape, layout),
          dy(dtype, shape, layout),
          rstd(compute_dtype(dtype), {shape.numel() / shape.back()}) {
        x.fill(random, 1, 2);
        gamma.fill(random, 1, 0.5);
        dy.fill(random);
    }
    /// The same numbers in another dtype.
    RmsNormLayer(const RmsNormLayer& other, Dtype dtype)
        : x(converted(other.x, dtype)),
          gamma(converted(other.gamma, dtype)),
          y(converted(other.y, dtype)),
          dy(converted(other.dy, dtype)),
          rstd(dtype, other.rstd.view().shape) {}

    void forward(CpuStream& stream, bool affine = true) {
        kernels::rms_norm(stream, x, affine ? &gamma.view() : nullptr, kRmsNormEpsilon, y, rstd);
    }
    void backward(CpuStream& stream, const kernels::RmsNormGradients& gradients, bool affine = true) const {
        test::run<RmsNormGradientPlan>(stream, x, dy, affine ? &gamma.view() : nullptr, rstd, gradients);
    }

    TestArray x, gamma, y, dy, rstd;
};

/// y and rstd against their definition in f64.
inline void expect_rms_norm(const RmsNormLayer& layer, bool affine) {
    const std::int64_t length = layer.x.view().shape.back();
    const double unit = epsilon(compute_dtype(layer.x.view().dtype));
    for (std::int64_t row = 0; row < layer.rstd.numel(); ++row) {
        double squares = 0;
        for (std::int64_t i = 0; i < length; ++i) squares += std::pow(layer.x.get(row * length + i), 2);
        const double rstd = 1 / std::sqrt(squares / static_cast<double>(length) + kRmsNormEpsilon);
        ASSERT_NEAR(layer.rstd.get(row), rstd, 32 * unit * rstd);
        for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
            const double value = layer.x.get(i) * rstd * (affine ? layer.gamma.get(i % length) : 1);
            ASSERT_NEAR(layer.y.get(i), value, 40 * unit * std::abs(value) + rounding(layer.y.view().dtype, value));
        }
    }
}

/// Gradients that a test has; what it leaves out is not looked at. `*_before`: what stood there and was added to.
struct RmsNormResults {
    const TestArray* x = nullptr;
    const TestArray* gamma = nullptr;
    double x_before = 0;
    double gamma_before = 0;
};

/// Gradients of a layer in `dtype` against those of the CPU in f64, where `wide` has the same numbers.
inline void expect_rms_norm_gradients(const RmsNormLayer& wide, Dtype dtype, const RmsNormResults& results) {
    const Shape shape = wide.x.view().shape, last{shape.back()};
    TestArray dx(Dtype::f64, shape), dgamma(Dtype::f64, last);
    CpuStream cpu;
    wide.backward(cpu, {.x = &dx.view(), .gamma = &dgamma.view()});
    const double unit = epsilon(compute_dtype(dtype));
    const std::int64_t length = shape.back(), rows = shape.numel() / length;
    for (std::int64_t i = 0; results.x && i < dx.numel(); ++i) {
        // g, h and mean(g * h) are around 1, at most 4; rstd is a factor of everything.
        const double value = results.x_before + dx.get(i), bound = 64 * unit * wide.rstd.get(i / length) * 16;
        ASSERT_NEAR(results.x->get(i), value, bound + rounding(results.x->view().dtype, value)) << i;
    }
    for (std::int64_t i = 0; results.gamma && i < length; ++i) {
        const double value = results.gamma_before + dgamma.get(i), bound = 64 * unit * 4 * static_cast<double>(rows);
        ASSERT_NEAR(results.gamma->get(i), value, bound + rounding(results.gamma->view().dtype, value)) << i;
    }
}

}  // namespace headroom::kernels::test
