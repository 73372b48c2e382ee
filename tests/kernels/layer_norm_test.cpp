#include <headroom/kernels/layer_norm/layer_norm.hpp>

#include <cmath>
#include <optional>

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

const Shape kShapes[] = {{3, 1}, {3, 5}, {2, 2, 64}, {3, 65}, {100, 33}, {2, 1024}, {2, 2500}, {7}};

/// All arrays of one layer, random.
struct Layer {
    Layer(Dtype dtype, const Shape& shape, Layout layout, std::mt19937_64& random)
        : x(dtype, shape, layout),
          gamma(dtype, {shape.back()}, layout),
          beta(dtype, {shape.back()}, layout),
          y(dtype, shape, layout),
          dy(dtype, shape, layout),
          mean(compute_dtype(dtype), {shape.elements() / shape.back()}),
          rstd(compute_dtype(dtype), {shape.elements() / shape.back()}) {
        x.fill(random, 2, 3);
        gamma.fill(random, 1, 0.5);
        beta.fill(random);
        dy.fill(random);
    }
    /// The same numbers in another dtype.
    Layer(const Layer& other, Dtype dtype)
        : x(test::converted(other.x, dtype)),
          gamma(test::converted(other.gamma, dtype)),
          beta(test::converted(other.beta, dtype)),
          y(test::converted(other.y, dtype)),
          dy(test::converted(other.dy, dtype)),
          mean(dtype, other.mean.view().shape),
          rstd(dtype, other.rstd.view().shape) {}

    void forward(CpuStream& stream, bool affine = true) {
        layer_norm(stream, x, affine ? &gamma.view() : nullptr, affine ? &beta.view() : nullptr, 1e-5, y, mean, rstd);
    }
    void backward(CpuStream& stream, const LayerNormGradients& gradients, bool affine = true) {
        Stream any = stream;
        std::vector<std::byte> scratch(layer_norm_backward_scratch(any, x));
        layer_norm_backward(stream, x, dy, affine ? &gamma.view() : nullptr, mean, rstd, gradients, scratch.data());
    }

    TestArray x, gamma, beta, y, dy, mean, rstd;
};

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
                    const std::int64_t length = shape.back();
                    const double unit = epsilon(compute_dtype(dtype));
                    for (std::int64_t row = 0; row < layer.mean.elements(); ++row) {
                        double mean = 0, variance = 0, magnitude = 0;
                        for (std::int64_t i = 0; i < length; ++i) mean += layer.x.get(row * length + i);
                        mean /= static_cast<double>(length);
                        for (std::int64_t i = 0; i < length; ++i) {
                            variance += std::pow(layer.x.get(row * length + i) - mean, 2);
                            magnitude = std::max(magnitude, std::abs(layer.x.get(row * length + i)));
                        }
                        const double rstd = 1 / std::sqrt(variance / static_cast<double>(length) + 1e-5);
                        ASSERT_NEAR(layer.mean.get(row), mean, 32 * unit * magnitude);
                        ASSERT_NEAR(layer.rstd.get(row), rstd, 64 * unit * rstd * (1 + magnitude * rstd));
                        for (std::int64_t i = 0; i < length; ++i) {
                            const double g = affine ? layer.gamma.get(i) : 1, b = affine ? layer.beta.get(i) : 0;
                            const double h = (layer.x.get(row * length + i) - mean) * rstd;
                            const double error = 64 * unit * (magnitude * rstd + 1) * (1 + std::abs(h)) * std::abs(g);
                            ASSERT_NEAR(layer.y.get(row * length + i), h * g + b,
                                        error + unit * std::abs(b) + test::rounding(dtype, h * g + b));
                        }
                    }
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
            for (std::int64_t i = 0; i < value.elements(); ++i) {
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
                TestArray wide_dx(Dtype::f64, shape), wide_dgamma(Dtype::f64, last), wide_dbeta(Dtype::f64, last);
                dgamma.fill(random);
                const auto before = dgamma.values();
                wide.backward(stream, {.x = &wide_dx.view(), .gamma = &wide_dgamma.view(), .beta = &wide_dbeta.view()});
                layer.backward(stream,
                               {.x = &dx.view(), .gamma = &dgamma.view(), .gamma_beta = 1, .beta = &dbeta.view()});
                const double unit = epsilon(compute_dtype(dtype));
                const std::int64_t length = shape.back(), rows = shape.elements() / length;
                for (std::int64_t i = 0; i < dx.elements(); ++i) {
                    const double rstd = wide.rstd.get(i / length), value = wide_dx.get(i);
                    // Inputs around 5 make h uncertain by 5 * rstd units; everything else is around 1.
                    const double bound = 256 * unit * rstd * (1 + 5 * rstd) * (4 + std::abs(value));
                    ASSERT_NEAR(dx.get(i), value, bound + test::rounding(dtype, value));
                }
                for (std::int64_t i = 0; i < length; ++i) {
                    const auto j = static_cast<std::size_t>(i);
                    double spread = 1;
                    for (std::int64_t row = 0; row < rows; ++row) spread += 4 * (1 + 5 * wide.rstd.get(row));
                    const double gamma = before[j] + wide_dgamma.get(i), beta = wide_dbeta.get(i);
                    ASSERT_NEAR(dgamma.get(i), gamma, 64 * unit * spread + epsilon(Dtype::f32) * std::abs(gamma));
                    ASSERT_NEAR(dbeta.get(i), beta, 64 * unit * spread + test::rounding(dtype, beta));
                }
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
