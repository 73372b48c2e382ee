#include <headroom/kernels/rms_norm/rms_norm.hpp>

#include <cmath>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::compute_dtype;
using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

const Shape kShapes[] = {{3, 1}, {3, 5}, {2, 2, 64}, {3, 65}, {100, 33}, {2, 2500}, {7}};

struct Layer {
    Layer(Dtype dtype, const Shape& shape, Layout layout, std::mt19937_64& random)
        : x(dtype, shape, layout),
          gamma(dtype, {shape.back()}, layout),
          y(dtype, shape, layout),
          dy(dtype, shape, layout),
          rstd(compute_dtype(dtype), {shape.elements() / shape.back()}) {
        x.fill(random, 1, 2);
        gamma.fill(random, 1, 0.5);
        dy.fill(random);
    }
    /// The same numbers in another dtype.
    Layer(const Layer& other, Dtype dtype)
        : x(test::converted(other.x, dtype)),
          gamma(test::converted(other.gamma, dtype)),
          y(test::converted(other.y, dtype)),
          dy(test::converted(other.dy, dtype)),
          rstd(dtype, other.rstd.view().shape) {}

    void forward(CpuStream& stream, bool affine = true) {
        rms_norm(stream, x, affine ? &gamma.view() : nullptr, 1e-5, y, rstd);
    }
    void backward(CpuStream& stream, const RmsNormGradients& gradients, bool affine = true) {
        Stream any = stream;
        std::vector<std::byte> scratch(rms_norm_backward_scratch(any, x));
        rms_norm_backward(stream, x, dy, affine ? &gamma.view() : nullptr, rstd, gradients, scratch.data());
    }

    TestArray x, gamma, y, dy, rstd;
};

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
                    const std::int64_t length = shape.back();
                    const double unit = epsilon(compute_dtype(dtype));
                    for (std::int64_t row = 0; row < layer.rstd.elements(); ++row) {
                        double squares = 0;
                        for (std::int64_t i = 0; i < length; ++i) squares += std::pow(layer.x.get(row * length + i), 2);
                        const double rstd = 1 / std::sqrt(squares / static_cast<double>(length) + 1e-5);
                        ASSERT_NEAR(layer.rstd.get(row), rstd, 32 * unit * rstd);
                        for (std::int64_t i = 0; i < length; ++i) {
                            const double g = affine ? layer.gamma.get(i) : 1;
                            const double value = layer.x.get(row * length + i) * rstd * g;
                            ASSERT_NEAR(layer.y.get(row * length + i), value,
                                        40 * unit * std::abs(value) + test::rounding(dtype, value));
                        }
                    }
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
            for (std::int64_t i = 0; i < value.elements(); ++i) {
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
                TestArray wide_dx(Dtype::f64, shape), wide_dgamma(Dtype::f64, last);
                dx.fill(random);
                const auto before = dx.values();
                wide.backward(stream, {.x = &wide_dx.view(), .gamma = &wide_dgamma.view()});
                layer.backward(stream, {.x = &dx.view(), .x_beta = 1, .gamma = &dgamma.view()});
                const double unit = epsilon(compute_dtype(dtype));
                const std::int64_t length = shape.back(), rows = shape.elements() / length;
                for (std::int64_t i = 0; i < dx.elements(); ++i) {
                    const double rstd = wide.rstd.get(i / length);
                    const double value = before[static_cast<std::size_t>(i)] + wide_dx.get(i);
                    // g, h and mean(g * h) are around 1, at most 4; rstd is a factor of everything.
                    ASSERT_NEAR(dx.get(i), value, 64 * unit * rstd * 16 + epsilon(Dtype::f32) * std::abs(value));
                }
                for (std::int64_t i = 0; i < length; ++i) {
                    const double bound = 64 * unit * 4 * static_cast<double>(rows);
                    ASSERT_NEAR(dgamma.get(i), wide_dgamma.get(i), bound + test::rounding(dtype, wide_dgamma.get(i)));
                }
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
