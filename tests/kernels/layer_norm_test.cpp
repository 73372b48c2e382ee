#include <headroom/kernels/layer_norm/layer_norm.hpp>

#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/layer_norm_layer.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;
using Layer = test::LayerNormLayer;

const Shape kShapes[] = {{3, 1}, {3, 5}, {2, 2, 64}, {3, 65}, {100, 33}, {2, 1024}, {2, 2500}, {7}};

TEST(LayerNorm, IsRightForEveryDtypeAndLayout) {
    std::mt19937_64 random(21);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const bool affine : {false, true}) {
                    Layer layer(dtype, shape, layout, random);
                    SCOPED_TRACE(describe(layer.x));
                    layer.forward(stream, affine);
                    test::expect_layer_norm(layer, affine);
                    ASSERT_TRUE(layer.y.gaps_untouched());
                }
            }
        }
    }
}

TEST(LayerNorm, KeepsItsDigitsWhenTheMeanIsLarge) {
    std::mt19937_64 random(22);
    CpuStream stream;
    TestArray x(Dtype::f32, {1, 512}), y(Dtype::f32, {1, 512}), mean(Dtype::f32, {1}), rstd(Dtype::f32, {1});
    x.fill(random, 10000, 1);
    layer_norm(stream, x, nullptr, nullptr, 0, y, mean, rstd);
    double exact_mean = 0, variance = 0;
    for (const double value : x.values()) exact_mean += value / 512;
    for (const double value : x.values()) variance += std::pow(value - exact_mean, 2) / 512;
    // The rounded mean is off by 10000 epsilon at most: its square is what the variance gets wrong.
    EXPECT_NEAR(rstd.get(0) * std::sqrt(variance), 1, 64 * epsilon(Dtype::f32) + 1e-5);
}

TEST(LayerNorm, MayOverwriteItsInput) {
    std::mt19937_64 random(23);
    CpuStream stream;
    for (const Dtype dtype : kFloating) {
        Layer layer(dtype, {5, 1500}, Layout::contiguous, random);
        layer.forward(stream);
        layer_norm(stream, layer.x, &layer.gamma.view(), &layer.beta.view(), 1e-5, layer.x, layer.mean, layer.rstd);
        EXPECT_EQ(layer.x.memory(), layer.y.memory());
    }
}

TEST(LayerNormBackward, AgreesWithFiniteDifferences) {
    std::mt19937_64 random(24);
    CpuStream stream;
    for (const bool affine : {false, true}) {
        Layer layer(Dtype::f64, {3, 7}, Layout::contiguous, random);
        TestArray dx(Dtype::f64, {3, 7}), dgamma(Dtype::f64, {7}), dbeta(Dtype::f64, {7});
        layer.forward(stream, affine);
        layer.backward(stream, {.x = &dx.view(), .gamma = &dgamma.view(), .beta = &dbeta.view()}, affine);
        const auto loss = [&] {
            layer.forward(stream, affine);
            return test::dot(layer.y, layer.dy);
        };
        const auto check = [&](TestArray& value, const TestArray& gradient) {
            const auto expected = test::finite_differences(value, loss);
            for (std::int64_t i = 0; i < value.numel(); ++i) {
                EXPECT_NEAR(gradient.get(i), expected[static_cast<std::size_t>(i)], 1e-8);
            }
        };
        check(layer.x, dx);
        if (affine) check(layer.gamma, dgamma);
        if (affine) check(layer.beta, dbeta);
    }
}

TEST(LayerNormBackward, IsTheSameInEveryDtypeAndLayoutAndAdds) {
    std::mt19937_64 random(25);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                Layer layer(dtype, shape, layout, random);
                SCOPED_TRACE(describe(layer.x));
                Layer wide(layer, Dtype::f64);
                layer.forward(stream);
                wide.forward(stream);
                const Shape last{shape.back()};
                TestArray dx(dtype, shape, layout), dgamma(Dtype::f32, last), dbeta(dtype, last, layout);
                for (std::int64_t i = 0; i < dgamma.numel(); ++i) dgamma.set(i, 2);
                layer.backward(stream,
                               {.x = &dx.view(), .gamma = &dgamma.view(), .gamma_beta = 1, .beta = &dbeta.view()});
                test::expect_layer_norm_gradients(wide, dtype,
                                                  {.x = &dx, .gamma = &dgamma, .beta = &dbeta, .gamma_before = 2});
                ASSERT_TRUE(dx.gaps_untouched() && dbeta.gaps_untouched());
            }
        }
    }
}

TEST(LayerNormBackward, GivesTheSameBitsForAnyNumberOfThreadsAndDestinations) {
    std::mt19937_64 random(26);
    Layer layer(Dtype::f32, {768, 128}, Layout::contiguous, random);
    std::optional<TestArray> first_dx, first_dgamma;
    for (const int threads : {1, 2, 5}) {
        CpuStream stream{.threads = threads};
        layer.forward(stream);
        TestArray dx(Dtype::f32, {768, 128}), dgamma(Dtype::f32, {128});
        layer.backward(stream, {.x = &dx.view()});
        layer.backward(stream, {.gamma = &dgamma.view()});
        if (!first_dx) first_dx.emplace(dx), first_dgamma.emplace(dgamma);
        EXPECT_EQ(dx.memory(), first_dx->memory());
        EXPECT_EQ(dgamma.memory(), first_dgamma->memory());
    }
}

TEST(LayerNormBackward, MayWriteOverTheUpstreamGradient) {
    std::mt19937_64 random(27);
    CpuStream stream{.threads = 2};
    Layer layer(Dtype::f32, {70, 1500}, Layout::contiguous, random);
    TestArray dx(Dtype::f32, {70, 1500});
    layer.forward(stream);
    layer.backward(stream, {.x = &dx.view()});
    layer.backward(stream, {.x = &layer.dy.view()});
    EXPECT_EQ(dx.memory(), layer.dy.memory());
}

TEST(LayerNormBackward, OfNoRowsIsZero) {
    std::mt19937_64 random(28);
    CpuStream stream;
    Layer layer(Dtype::f32, {0, 4}, Layout::contiguous, random);
    TestArray dx(Dtype::f32, {0, 4}), dgamma(Dtype::f32, {4});
    layer.forward(stream);
    layer.backward(stream, {.x = &dx.view(), .gamma = &dgamma.view()});
    EXPECT_EQ(dgamma.values(), (std::vector<double>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace headroom::kernels
