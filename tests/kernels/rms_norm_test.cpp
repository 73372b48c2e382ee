#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/rms_norm_layer.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;
using Layer = test::RmsNormLayer;

const Shape kShapes[] = {{3, 1}, {3, 5}, {2, 2, 64}, {3, 65}, {100, 33}, {2, 2500}, {7}};

TEST(RmsNorm, IsRightForEveryDtypeAndLayout) {
    std::mt19937_64 random(31);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const bool affine : {false, true}) {
                    Layer layer(dtype, shape, layout, random);
                    SCOPED_TRACE(describe(layer.x));
                    layer.forward(stream, affine);
                    test::expect_rms_norm(layer, affine);
                    ASSERT_TRUE(layer.y.gaps_untouched());
                }
            }
        }
    }
}

TEST(RmsNorm, MayOverwriteItsInput) {
    std::mt19937_64 random(32);
    CpuStream stream;
    for (const Dtype dtype : kFloating) {
        Layer layer(dtype, {5, 1500}, Layout::contiguous, random);
        layer.forward(stream);
        rms_norm(stream, layer.x, &layer.gamma.view(), 1e-5, layer.x, layer.rstd);
        EXPECT_EQ(layer.x.memory(), layer.y.memory());
    }
}

TEST(RmsNormBackward, AgreesWithFiniteDifferences) {
    std::mt19937_64 random(33);
    CpuStream stream;
    for (const bool affine : {false, true}) {
        Layer layer(Dtype::f64, {3, 7}, Layout::contiguous, random);
        TestArray dx(Dtype::f64, {3, 7}), dgamma(Dtype::f64, {7});
        layer.forward(stream, affine);
        layer.backward(stream, {.x = &dx.view(), .gamma = &dgamma.view()}, affine);
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
    }
}

TEST(RmsNormBackward, IsTheSameInEveryDtypeAndLayoutAndAdds) {
    std::mt19937_64 random(34);
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
                TestArray dx(Dtype::f32, shape), dgamma(dtype, last, layout);
                for (std::int64_t i = 0; i < dx.numel(); ++i) dx.set(i, 2);
                layer.backward(stream, {.x = &dx.view(), .x_beta = 1, .gamma = &dgamma.view()});
                test::expect_rms_norm_gradients(wide, dtype, {.x = &dx, .gamma = &dgamma, .x_before = 2});
                ASSERT_TRUE(dgamma.gaps_untouched());
            }
        }
    }
}

TEST(RmsNormBackward, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(35);
    Layer layer(Dtype::f32, {768, 128}, Layout::contiguous, random);
    std::vector<std::vector<std::byte>> results;
    for (const int threads : {1, 2, 5}) {
        CpuStream stream{.threads = threads};
        layer.forward(stream);
        TestArray dgamma(Dtype::f32, {128});
        layer.backward(stream, {.gamma = &dgamma.view()});
        results.push_back(dgamma.memory());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace headroom::kernels
