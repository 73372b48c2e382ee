#include <headroom/kernels/layer_norm/layer_norm.hpp>

#include <cmath>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/layer_norm_layer.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::seeded;
using test::TestArray;

using LayerNormCuda = test::CudaTest;

constexpr double kEpsilon = test::kLayerNormEpsilon;

// A lane, vectors and tails of rows that begin aligned or not, several warps, chunks of several rows and teams.
const Shape kShapes[] = {{3, 1}, {2, 2, 64}, {5, 31}, {9, 33}, {150, 72}, {2, 1023}, {3, 1025}, {21, 1032}, {7}};

struct Layer : test::LayerNormLayer {
    using LayerNormLayer::backward;
    using LayerNormLayer::forward;
    using LayerNormLayer::LayerNormLayer;

    void forward(test::Gpu& gpu, bool affine = true) {
        const View in = gpu.put(x), g = gpu.put(gamma), b = gpu.put(beta), out = gpu.put(y);
        const View means = gpu.put(mean), rstds = gpu.put(rstd);
        layer_norm(gpu.stream, in, affine ? &g : nullptr, affine ? &b : nullptr, kEpsilon, out, means, rstds);
        gpu.get(out, y);
        gpu.get(means, mean);
        gpu.get(rstds, rstd);
    }
    /// Null gradients are not asked for. `over`: dx is written over dy.
    void backward(test::Gpu& gpu, TestArray* dx, float dx_beta, TestArray* dgamma, float gamma_beta, TestArray* dbeta,
                  float beta_beta, bool affine = true, bool over = false) {
        const View in = gpu.put(x), upstream = gpu.put(dy), g = gpu.put(gamma);
        const View means = gpu.put(mean), rstds = gpu.put(rstd);
        View to_x, to_gamma, to_beta;
        LayerNormGradients gradients{.x_beta = dx_beta, .gamma_beta = gamma_beta, .beta_beta = beta_beta};
        if (dx) to_x = over ? upstream : gpu.put(*dx), gradients.x = &to_x;
        if (dgamma) to_gamma = gpu.put(*dgamma), gradients.gamma = &to_gamma;
        if (dbeta) to_beta = gpu.put(*dbeta), gradients.beta = &to_beta;
        gpu.run<LayerNormGradientPlan>(in, upstream, affine ? &g : nullptr, means, rstds, gradients);
        if (dx) gpu.get(to_x, *dx);
        if (dgamma) gpu.get(to_gamma, *dgamma);
        if (dbeta) gpu.get(to_beta, *dbeta);
    }
};

TEST_F(LayerNormCuda, IsRightForEveryDtypeAndLayout) {
    std::mt19937_64 random = seeded();
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                for (const bool affine : {false, true}) {
                    Layer layer(dtype, shape, layout, random);
                    SCOPED_TRACE(describe(layer.x));
                    layer.forward(*gpu, affine);
                    test::expect_layer_norm(layer, affine);
                    ASSERT_TRUE(layer.y.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(LayerNormCuda, ReadsRowsThatRegistersDoNotHoldAgain) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
        for (const bool affine : {false, true}) {
            Layer layer(dtype, {2, dtype == Dtype::bf16 ? 16384 + 4104 : 8192 + 2052}, Layout::contiguous, random);
            SCOPED_TRACE(describe(layer.x));
            layer.forward(*gpu, affine);
            test::expect_layer_norm(layer, affine);
        }
    }
}

TEST_F(LayerNormCuda, TakesParametersOfAnotherDtype) {
    std::mt19937_64 random = seeded();
    for (const Dtype parameters : kFloating) {
        Layer layer(Dtype::bf16, {3, 72}, Layout::contiguous, random);
        const TestArray gamma = test::converted(layer.gamma, parameters),
                        beta = test::converted(layer.beta, parameters);
        const View in = gpu->put(layer.x), g = gpu->put(gamma), b = gpu->put(beta), out = gpu->put(layer.y);
        const View mean = gpu->put(layer.mean), rstd = gpu->put(layer.rstd);
        layer_norm(gpu->stream, in, &g, &b, kEpsilon, out, mean, rstd);
        gpu->get(out, layer.y);
        gpu->get(mean, layer.mean);
        gpu->get(rstd, layer.rstd);
        test::expect_layer_norm(layer, true);
    }
}

TEST_F(LayerNormCuda, KeepsItsDigitsWhenTheMeanIsLarge) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const std::int64_t length : {511, 512}) {
        Layer layer(Dtype::f32, {1, length}, Layout::contiguous, random);
        layer.x.fill(random, 10000, 1);
        Layer wide(layer, Dtype::f64);
        wide.forward(cpu, false);
        layer.forward(*gpu, false);
        // The rounded mean is off by 10000 epsilon at most: its square is what the variance gets wrong.
        EXPECT_NEAR(layer.rstd.get(0) / wide.rstd.get(0), 1, 64 * epsilon(Dtype::f32) + 1e-5);
    }
}

TEST_F(LayerNormCuda, MayOverwriteItsInput) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t length : {33, 1504}) {
            Layer layer(dtype, {5, length}, Layout::contiguous, random);
            const View in = gpu->put(layer.x), g = gpu->put(layer.gamma), mean = gpu->put(layer.mean);
            const View rstd = gpu->put(layer.rstd);
            layer_norm(gpu->stream, in, &g, nullptr, kEpsilon, in, mean, rstd);
            TestArray over(layer.x);
            gpu->get(in, over);
            const View again = gpu->put(layer.x), out = gpu->put(layer.y);
            layer_norm(gpu->stream, again, &g, nullptr, kEpsilon, out, mean, rstd);
            gpu->get(out, layer.y);
            EXPECT_EQ(over.memory(), layer.y.memory());
        }
    }
}

TEST_F(LayerNormCuda, GradientIsThatOfTheCpuInEveryDtypeAndLayoutAndAdds) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                Layer layer(dtype, shape, layout, random);
                SCOPED_TRACE(describe(layer.x));
                Layer wide(layer, Dtype::f64);
                wide.forward(cpu);
                layer.forward(*gpu);
                const Shape last{shape.back()};
                TestArray dx(dtype, shape, layout), dgamma(Dtype::f32, last), dbeta(dtype, last, layout);
                for (std::int64_t i = 0; i < dgamma.numel(); ++i) dgamma.set(i, 2);
                layer.backward(*gpu, &dx, 0, &dgamma, 1, &dbeta, 0);
                test::expect_layer_norm_gradients(wide, dtype,
                                                  {.x = &dx, .gamma = &dgamma, .beta = &dbeta, .gamma_before = 2});
                ASSERT_TRUE(dx.gaps_untouched() && dbeta.gaps_untouched());
                TestArray sum(Dtype::f32, shape);
                for (std::int64_t i = 0; i < sum.numel(); ++i) sum.set(i, 3);
                layer.backward(*gpu, &sum, 1, nullptr, 0, nullptr, 0);
                test::expect_layer_norm_gradients(wide, dtype, {.x = &sum, .x_before = 3});
            }
        }
    }
}

TEST_F(LayerNormCuda, GradientOfRowsThatRegistersDoNotHold) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const std::int64_t length : {8192, 8200}) {
        Layer layer(Dtype::f16, {2, length}, Layout::contiguous, random);
        SCOPED_TRACE(describe(layer.x));
        Layer wide(layer, Dtype::f64);
        wide.forward(cpu);
        layer.forward(*gpu);
        TestArray dx(Dtype::f16, {2, length}), dgamma(Dtype::f16, {length}), dbeta(Dtype::f32, {length});
        layer.backward(*gpu, &dx, 0, &dgamma, 0, &dbeta, 0);
        test::expect_layer_norm_gradients(wide, Dtype::f16, {.x = &dx, .gamma = &dgamma, .beta = &dbeta});
    }
}

TEST_F(LayerNormCuda, GradientOfMoreRowsThanTheMostChunksHave) {
    if (test::kRaces) GTEST_SKIP() << "as small sums, for races";
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const auto& [dtype, length] : {std::pair{Dtype::f32, 16}, {Dtype::f32, 15}, {Dtype::bf16, 1536}}) {
        const std::int64_t rows = length == 1536 ? 264 * 5 + 1 : 264 * 16 + 77;
        Layer layer(dtype, {rows, length}, Layout::contiguous, random);
        SCOPED_TRACE(describe(layer.x));
        Layer wide(layer, Dtype::f64);
        wide.forward(cpu);
        layer.forward(*gpu);
        TestArray dx(dtype, {rows, length}), dgamma(Dtype::f64, {length}), dbeta(Dtype::bf16, {length});
        layer.backward(*gpu, &dx, 0, &dgamma, 0, &dbeta, 0);
        test::expect_layer_norm_gradients(wide, dtype, {.x = &dx, .gamma = &dgamma, .beta = &dbeta});
    }
}

TEST_F(LayerNormCuda, GradientHasTheSameBitsWhateverIsAskedForAndInEveryRun) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        Layer layer(dtype, {34, 1504}, Layout::contiguous, random);
        layer.forward(*gpu);
        TestArray dx(dtype, {34, 1504}), dgamma(dtype, {1504}), dbeta(dtype, {1504});
        layer.backward(*gpu, &dx, 0, &dgamma, 0, &dbeta, 0);
        TestArray only_x(dtype, {34, 1504}), only_gamma(dtype, {1504}), only_beta(dtype, {1504});
        layer.backward(*gpu, &only_x, 0, nullptr, 0, nullptr, 0);
        layer.backward(*gpu, nullptr, 0, &only_gamma, 0, nullptr, 0);
        layer.backward(*gpu, nullptr, 0, nullptr, 0, &only_beta, 0);
        EXPECT_EQ(dx.memory(), only_x.memory());
        EXPECT_EQ(dgamma.memory(), only_gamma.memory());
        EXPECT_EQ(dbeta.memory(), only_beta.memory());
        TestArray over(dtype, {34, 1504}), again(dtype, {1504});
        layer.backward(*gpu, &over, 0, &again, 0, &only_beta, 0, true, true);
        EXPECT_EQ(dx.memory(), over.memory());
        EXPECT_EQ(dgamma.memory(), again.memory());
    }
}

TEST_F(LayerNormCuda, GradientWithoutParametersIsThatOfOnes) {
    std::mt19937_64 random = seeded();
    for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
        Layer layer(Dtype::f16, {6, 40}, layout, random);
        for (std::int64_t i = 0; i < 40; ++i) layer.gamma.set(i, 1);
        layer.forward(*gpu, false);
        TestArray dx(Dtype::f16, {6, 40}, layout), ones(Dtype::f16, {6, 40}, layout);
        layer.backward(*gpu, &dx, 0, nullptr, 0, nullptr, 0, false);
        layer.backward(*gpu, &ones, 0, nullptr, 0, nullptr, 0, true);
        EXPECT_EQ(dx.memory(), ones.memory());
    }
}

TEST_F(LayerNormCuda, GradientOfNoRowsIsZero) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        Layer layer(dtype, {0, 4}, Layout::contiguous, random);
        TestArray dx(dtype, {0, 4}), dgamma(dtype, {4}), dbeta(dtype, {4});
        dbeta.fill(random);
        const auto before = dbeta.values();
        layer.forward(*gpu);
        layer.backward(*gpu, &dx, 0, &dgamma, 0, &dbeta, 1);
        EXPECT_EQ(dgamma.values(), (std::vector<double>{0, 0, 0, 0}));
        EXPECT_EQ(dbeta.values(), before);
    }
}

TEST_F(LayerNormCuda, ScratchIsTheSameInARehearsal) {
    const View x = contiguous_view(nullptr, Dtype::bf16, {4096, 768});
    Stream real = gpu->stream, dry = DryStream{.cuda = true};
    for (const Stream* stream : {&real, &dry}) {
        EXPECT_EQ(LayerNormGradientPlan(*stream, x, x, nullptr, {}, {}, {}).scratch(), 2u * 264 * 768 * 4);
    }
}

}  // namespace
}  // namespace headroom::kernels
