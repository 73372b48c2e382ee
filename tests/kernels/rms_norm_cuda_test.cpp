#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include <cmath>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#include <headroom/tests/kernels/rms_norm_layer.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::seeded;
using test::TestArray;

using RmsNormCuda = test::CudaTest;

constexpr double kEpsilon = test::kRmsNormEpsilon;

// The kernels are layer_norm's, whose test has more of everything.
const Shape kShapes[] = {{3, 1}, {2, 2, 64}, {5, 31}, {9, 33}, {150, 72}, {2, 1023}, {3, 1032}, {7}};

struct Layer : test::RmsNormLayer {
    using RmsNormLayer::backward;
    using RmsNormLayer::forward;
    using RmsNormLayer::RmsNormLayer;

    void forward(test::Gpu& gpu, bool affine = true) {
        const View in = gpu.put(x), g = gpu.put(gamma), out = gpu.put(y), rstds = gpu.put(rstd);
        rms_norm(gpu.stream, in, affine ? &g : nullptr, kEpsilon, out, rstds);
        gpu.get(out, y);
        gpu.get(rstds, rstd);
    }
    void backward(test::Gpu& gpu, TestArray* dx, float dx_beta, TestArray* dgamma, float gamma_beta,
                  bool over = false) {
        const View in = gpu.put(x), upstream = gpu.put(dy), g = gpu.put(gamma), rstds = gpu.put(rstd);
        View to_x, to_gamma;
        RmsNormGradients gradients{.x_beta = dx_beta, .gamma_beta = gamma_beta};
        if (dx) to_x = over ? upstream : gpu.put(*dx), gradients.x = &to_x;
        if (dgamma) to_gamma = gpu.put(*dgamma), gradients.gamma = &to_gamma;
        gpu.run<RmsNormGradientPlan>(in, upstream, &g, rstds, gradients);
        if (dx) gpu.get(to_x, *dx);
        if (dgamma) gpu.get(to_gamma, *dgamma);
    }
};

TEST_F(RmsNormCuda, IsRightForEveryDtypeAndLayout) {
    std::mt19937_64 random = seeded();
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                for (const bool affine : {false, true}) {
                    Layer layer(dtype, shape, layout, random);
                    SCOPED_TRACE(describe(layer.x));
                    layer.forward(*gpu, affine);
                    test::expect_rms_norm(layer, affine);
                    ASSERT_TRUE(layer.y.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(RmsNormCuda, GradientIsThatOfTheCpuInEveryDtypeAndLayoutAndAdds) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                Layer layer(dtype, shape, layout, random), wide(layer, Dtype::f64);
                SCOPED_TRACE(describe(layer.x));
                wide.forward(cpu);
                layer.forward(*gpu);
                const Shape last{shape.back()};
                TestArray dx(dtype, shape, layout), dgamma(Dtype::f32, last), sum(Dtype::f32, shape);
                for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, 2);
                for (std::int64_t i = 0; i < dgamma.numel(); ++i) dgamma.set(i, 3);
                layer.backward(*gpu, &dx, 0, &dgamma, 1);
                layer.backward(*gpu, &sum, 1, nullptr, 0);
                test::expect_rms_norm_gradients(wide, dtype, {.x = &dx, .gamma = &dgamma, .gamma_before = 3});
                test::expect_rms_norm_gradients(wide, dtype, {.x = &sum, .x_before = 2});
                ASSERT_TRUE(dx.gaps_untouched());
            }
        }
    }
}

TEST_F(RmsNormCuda, AndItsGradientMayOverwriteInputsAndRepeatBitForBit) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : kFloating) {
        Layer layer(dtype, {40, 520}, Layout::contiguous, random);
        layer.forward(*gpu);
        const View in = gpu->put(layer.x), g = gpu->put(layer.gamma), rstd = gpu->put(layer.rstd);
        rms_norm(gpu->stream, in, &g, kEpsilon, in, rstd);
        TestArray y(layer.y), dx(dtype, {40, 520}), over(dtype, {40, 520}), dgamma(dtype, {520}), again(dtype, {520});
        gpu->get(in, y);
        EXPECT_EQ(y.memory(), layer.y.memory());
        layer.backward(*gpu, &dx, 0, &dgamma, 0);
        layer.backward(*gpu, &over, 0, &again, 0, true);
        EXPECT_EQ(dx.memory(), over.memory());
        EXPECT_EQ(dgamma.memory(), again.memory());
    }
}

TEST_F(RmsNormCuda, GradientOfNoRowsIsZero) {
    std::mt19937_64 random = seeded();
    Layer layer(Dtype::f32, {0, 4}, Layout::contiguous, random);
    TestArray dx(Dtype::f32, {0, 4}), dgamma(Dtype::f32, {4});
    layer.forward(*gpu);
    layer.backward(*gpu, &dx, 0, &dgamma, 0);
    EXPECT_EQ(dgamma.values(), (std::vector<double>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace headroom::kernels
