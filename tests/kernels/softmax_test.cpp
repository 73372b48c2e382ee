#include <headroom/kernels/softmax/softmax.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Shorter than a vector, vectors with and without a rest, one chunk, several.
const Shape kShapes[] = {{3, 1}, {3, 5}, {2, 2, 64}, {3, 65}, {2, 1024}, {2, 1025}, {2, 3000}, {7}};

struct RowReference {
    double largest = -kInfinity, sum = 0;
    double probability(double x) const { return std::exp(x - largest) / sum; }
};

RowReference reference(const TestArray& x, std::int64_t row, std::int64_t length) {
    RowReference result;
    for (std::int64_t i = 0; i < length; ++i) result.largest = std::max(result.largest, x.get(row * length + i));
    for (std::int64_t i = 0; i < length; ++i) result.sum += std::exp(x.get(row * length + i) - result.largest);
    return result;
}

/// Relative error of a probability: of the sum (its additions), of the exponentials (2 ulp and what rounding their
/// argument does), of the quotient.
double relative_bound(Dtype dtype, double distance, std::int64_t length) {
    const double additions = static_cast<double>(length) / 8 + 8;
    return epsilon(test::compute_dtype(dtype)) * (additions + 2 * std::abs(distance) + 8);
}

TEST(Softmax, AndItsLogarithmAreRightForEveryDtypeAndLayout) {
    std::mt19937_64 random(11);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                TestArray x(dtype, shape, layout), y(dtype, shape, layout), z(dtype, shape, layout);
                x.fill(random, 3, 4);
                SCOPED_TRACE(describe(x));
                softmax(stream, x, y);
                log_softmax(stream, x, z);
                const std::int64_t length = shape.back();
                RowReference row;
                for (std::int64_t i = 0; i < x.numel(); ++i) {
                    if (i % length == 0) row = reference(x, i / length, length);
                    const double expected = row.probability(x.get(i));
                    const double bound = relative_bound(dtype, x.get(i) - row.largest, length);
                    ASSERT_NEAR(y.get(i), expected, bound * expected + test::rounding(dtype, expected));
                    ASSERT_NEAR(z.get(i), std::log(expected), bound + test::rounding(dtype, std::log(expected)));
                }
                ASSERT_TRUE(y.gaps_untouched() && z.gaps_untouched());
            }
        }
    }
}

TEST(Softmax, NeitherOverflowsNorMindsMaskedElements) {
    CpuStream stream;
    for (const std::int64_t length : {4, 3000}) {
        TestArray x(Dtype::f32, {1, length}), y(Dtype::f32, {1, length}), z(Dtype::f32, {1, length});
        for (std::int64_t i = 0; i < length; ++i) x.set(i, -kInfinity);
        x.set(length - 1, 3e38), x.set(length - 2, 3e38);
        softmax(stream, x, y);
        log_softmax(stream, x, z);
        EXPECT_EQ(y.get(0), 0);
        EXPECT_EQ(z.get(0), -kInfinity);
        EXPECT_EQ(y.get(length - 1), 0.5);
        EXPECT_NEAR(z.get(length - 2), -std::log(2.0), 1e-7);
    }
}

TEST(Softmax, OfNanOrInfinityOrNothingButMaskIsNan) {
    CpuStream stream;
    for (const std::int64_t length : {4, 3000}) {
        for (const double value : {kNan, kInfinity}) {
            TestArray x(Dtype::f32, {1, length}), y(Dtype::f32, {1, length});
            for (std::int64_t i = 0; i < length; ++i) x.set(i, 0);
            x.set(length / 2, value);
            softmax(stream, x, y);
            EXPECT_TRUE(std::isnan(y.get(length / 2)));
        }
        TestArray x(Dtype::f32, {1, length}), y(Dtype::f32, {1, length});
        for (std::int64_t i = 0; i < length; ++i) x.set(i, -kInfinity);
        softmax(stream, x, y);
        EXPECT_TRUE(std::isnan(y.get(0)));
    }
}

TEST(Softmax, MayOverwriteItsInput) {
    std::mt19937_64 random(12);
    CpuStream stream{.threads = 2};
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t length : {65, 3000}) {
            TestArray x(dtype, {3, length}), y(dtype, {3, length});
            x.fill(random);
            TestArray z(x);
            softmax(stream, x, y);
            softmax(stream, x, x);
            EXPECT_EQ(x.memory(), y.memory());
            log_softmax(stream, z, y);
            log_softmax(stream, z, z);
            EXPECT_EQ(z.memory(), y.memory());
        }
    }
}

TEST(SoftmaxBackward, AgreesWithFiniteDifferences) {
    std::mt19937_64 random(13);
    CpuStream stream;
    for (const bool logarithm : {false, true}) {
        TestArray x(Dtype::f64, {3, 7}), y(Dtype::f64, {3, 7}), dy(Dtype::f64, {3, 7}), dx(Dtype::f64, {3, 7});
        x.fill(random);
        dy.fill(random);
        const auto forward = [&] {
            logarithm ? log_softmax(stream, x, y) : softmax(stream, x, y);
            return test::dot(y, dy);
        };
        forward();
        logarithm ? log_softmax_backward(stream, y, dy, dx, 0) : softmax_backward(stream, y, dy, dx, 0);
        const auto expected = test::finite_differences(x, forward);
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            EXPECT_NEAR(dx.get(i), expected[static_cast<std::size_t>(i)], 1e-8);
        }
    }
}

TEST(SoftmaxBackward, IsTheSameInEveryDtypeAndLayout) {
    std::mt19937_64 random(14);
    CpuStream stream{.threads = 2};
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const bool logarithm : {false, true}) {
                    TestArray x(dtype, shape, layout), y(dtype, shape, layout), dy(dtype, shape, layout);
                    x.fill(random);
                    dy.fill(random);
                    logarithm ? log_softmax(stream, x, y) : softmax(stream, x, y);
                    const auto wide_y = test::converted(y, Dtype::f64), wide_dy = test::converted(dy, Dtype::f64);
                    TestArray expected(Dtype::f64, shape), dx(dtype, shape, layout), wide(Dtype::f32, shape);
                    const auto backward = [&](const View& from, const View& above, const View& to, float beta) {
                        logarithm ? log_softmax_backward(stream, from, above, to, beta)
                                  : softmax_backward(stream, from, above, to, beta);
                    };
                    backward(wide_y, wide_dy, expected, 0);
                    backward(y, dy, dx, 0);
                    for (std::int64_t i = 0; i < x.numel(); ++i) wide.set(i, 2);
                    backward(y, dy, wide, 1);
                    const double unit = epsilon(test::compute_dtype(dtype));
                    const double bound = unit * 8 * (static_cast<double>(shape.back()) + 8);
                    for (std::int64_t i = 0; i < x.numel(); ++i) {
                        ASSERT_NEAR(dx.get(i), expected.get(i), bound + test::rounding(dtype, expected.get(i)));
                        ASSERT_NEAR(wide.get(i), 2 + expected.get(i), bound + epsilon(Dtype::f32) * 8);
                    }
                    ASSERT_TRUE(dx.gaps_untouched());
                }
            }
        }
    }
}

TEST(Softmax, AndItsGradientGiveTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(15);
    TestArray x(Dtype::f32, {300, 77}), dy(Dtype::f32, {300, 77});
    x.fill(random);
    dy.fill(random);
    std::vector<std::vector<std::byte>> values, gradients;
    for (const int threads : {1, 2, 5}) {
        CpuStream stream{.threads = threads};
        TestArray y(Dtype::f32, {300, 77}), dx(Dtype::f32, {300, 77});
        softmax(stream, x, y);
        softmax_backward(stream, y, dy, dx, 0);
        values.push_back(y.memory());
        gradients.push_back(dx.memory());
    }
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[0], values[2]);
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(gradients[0], gradients[2]);
}

TEST(Softmax, TakesEmptyViews) {
    CpuStream stream;
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
        TestArray x(Dtype::f32, shape), y(Dtype::f32, shape);
        softmax(stream, x, y);
        log_softmax(stream, x, y);
        softmax_backward(stream, x, y, y, 0);
        log_softmax_backward(stream, x, y, y, 0);
    }
}

}  // namespace
}  // namespace headroom::kernels
