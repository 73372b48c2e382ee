#include <headroom/kernels/softmax/softmax.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::seeded;
using test::TestArray;

using SoftmaxCuda = test::CudaTest;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A lane, part of a warp, rows that begin anywhere, several warps.
const Shape kShapes[] = {{3, 1}, {5, 31}, {2, 2, 64}, {9, 33}, {2, 1023}, {3, 1025}, {7}};

double error_of(Dtype dtype, std::int64_t length) {
    return epsilon(test::compute_dtype(dtype)) * 8 * (static_cast<double>(length) + 8);
}

/// Both functions of x against the CPU in f64; x and y may be the same view.
struct Forward {
    Forward(const TestArray& x) : wide(test::converted(x, Dtype::f64)), y(wide), z(wide) {
        CpuStream cpu;
        softmax(cpu, wide, y);
        log_softmax(cpu, wide, z);
    }
    void check(const TestArray& result, bool logarithm) const {
        const std::int64_t length = wide.view().shape.back();
        const Dtype dtype = result.view().dtype;
        for (std::int64_t i = 0; i < result.numel(); ++i) {
            // The arguments of exponentials reach 32; a logarithm's error is that of the sum, relative to it.
            const double expected = (logarithm ? z : y).get(i), factor = logarithm ? 1 + std::abs(expected) : expected;
            const double relative = epsilon(test::compute_dtype(dtype)) * (static_cast<double>(length) / 8 + 80);
            ASSERT_NEAR(result.get(i), expected, relative * factor + test::rounding(dtype, expected)) << i;
        }
    }
    TestArray wide, y, z;
};

TEST_F(SoftmaxCuda, AndItsLogarithmAreRightForEveryDtypeAndLayout) {
    std::mt19937_64 random = seeded();
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                TestArray x(dtype, shape, layout), y(dtype, shape, layout), z(dtype, shape, layout);
                x.fill(random, 3, 4);
                SCOPED_TRACE(describe(x));
                const View in = gpu->put(x), out = gpu->put(y), logarithm = gpu->put(z);
                softmax(gpu->stream, in, out);
                log_softmax(gpu->stream, in, logarithm);
                gpu->get(out, y);
                gpu->get(logarithm, z);
                const Forward expected(x);
                expected.check(y, false);
                expected.check(z, true);
                ASSERT_TRUE(y.gaps_untouched() && z.gaps_untouched());
            }
        }
    }
}

TEST_F(SoftmaxCuda, ReadsRowsThatRegistersDoNotHoldTwice) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
        const Shape shape{1, dtype == Dtype::bf16 ? 33021 : 16423};
        TestArray x(dtype, shape), y(dtype, shape), dy(dtype, shape), dx(dtype, shape);
        x.fill(random, 3, 4);
        dy.fill(random);
        x.set(shape.back() - 1, 30);
        const View in = gpu->put(x), out = gpu->put(y), upstream = gpu->put(dy), gradient = gpu->put(dx);
        const Forward expected(x);
        for (const bool logarithm : {false, true}) {
            SCOPED_TRACE(describe(x));
            (logarithm ? log_softmax(gpu->stream, in, out) : softmax(gpu->stream, in, out));
            gpu->get(out, y);
            expected.check(y, logarithm);
            (logarithm ? log_softmax_backward(gpu->stream, out, upstream, gradient, 0)
                       : softmax_backward(gpu->stream, out, upstream, gradient, 0));
            gpu->get(gradient, dx);
            const TestArray wide_y = test::converted(y, Dtype::f64), wide_dy = test::converted(dy, Dtype::f64);
            TestArray wide_dx(Dtype::f64, shape);
            CpuStream cpu;
            (logarithm ? log_softmax_backward(cpu, wide_y, wide_dy, wide_dx, 0)
                       : softmax_backward(cpu, wide_y, wide_dy, wide_dx, 0));
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                ASSERT_NEAR(dx.get(i), wide_dx.get(i),
                            error_of(dtype, shape.back()) + test::rounding(dtype, wide_dx.get(i)));
            }
        }
    }
}

TEST_F(SoftmaxCuda, TakesRowsThatBeginDifferentlyInInputAndOutput) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
        for (const auto& [from, to] : {std::pair{1, 1}, {1, 2}, {0, 3}}) {
            TestArray x(dtype, {3, 80}), y(dtype, {3, 80}), z(Dtype::f32, {3, 80});
            x.fill(random);
            View in = gpu->put(x), out = gpu->put(y), wide = gpu->put(z);
            const auto narrow = [](View whole, std::int64_t first) {
                whole.data = whole.at(first);
                whole.shape[1] = 76;
                return whole;
            };
            softmax(gpu->stream, narrow(in, from), narrow(out, to));
            softmax(gpu->stream, narrow(in, from), narrow(wide, to));
            gpu->get(out, y);
            gpu->get(wide, z);
            TestArray part(dtype, {3, 76}), part_y(dtype, {3, 76}), part_z(Dtype::f32, {3, 76});
            for (std::int64_t i = 0; i < 3; ++i) {
                for (std::int64_t k = 0; k < 76; ++k) {
                    part.set(i * 76 + k, x.get(i * 80 + from + k));
                    part_y.set(i * 76 + k, y.get(i * 80 + to + k));
                    part_z.set(i * 76 + k, z.get(i * 80 + to + k));
                    y.set(i * 80 + to + k, kNan);
                }
            }
            const Forward expected(part);
            expected.check(part_y, false);
            expected.check(part_z, false);
            for (std::int64_t i = 0; i < y.numel(); ++i) ASSERT_TRUE(std::isnan(y.get(i))) << i;
        }
    }
}

TEST_F(SoftmaxCuda, NeitherOverflowsNorMindsMaskedElements) {
    for (const std::int64_t length : {4, 3000, 17000}) {
        TestArray x(Dtype::f32, {1, length}), y(Dtype::f32, {1, length}), z(Dtype::f32, {1, length});
        for (std::int64_t i = 0; i < length; ++i) x.set(i, -kInfinity);
        x.set(length - 1, 3e38), x.set(length - 2, 3e38);
        const View in = gpu->put(x), out = gpu->put(y), logarithm = gpu->put(z);
        softmax(gpu->stream, in, out);
        log_softmax(gpu->stream, in, logarithm);
        gpu->get(out, y);
        gpu->get(logarithm, z);
        EXPECT_EQ(y.get(0), 0);
        EXPECT_EQ(z.get(0), -kInfinity);
        EXPECT_EQ(y.get(length - 1), 0.5);
        EXPECT_NEAR(z.get(length - 2), -std::log(2.0), 1e-7);
    }
}

TEST_F(SoftmaxCuda, OfNanOrInfinityOrNothingButMaskIsNan) {
    for (const std::int64_t length : {4, 3000, 17000}) {
        for (const double value : {kNan, kInfinity, -kInfinity}) {
            for (const std::int64_t place : {length / 2, length - 1}) {
                TestArray x(Dtype::f32, {1, length}), y(Dtype::f32, {1, length});
                for (std::int64_t i = 0; i < length; ++i) x.set(i, value == -kInfinity ? value : 0);
                x.set(place, value);
                const View in = gpu->put(x), out = gpu->put(y);
                softmax(gpu->stream, in, out);
                gpu->get(out, y);
                EXPECT_TRUE(std::isnan(y.get(place)));
            }
        }
    }
}

TEST_F(SoftmaxCuda, MayOverwriteItsInput) {
    std::mt19937_64 random = seeded();
    for (const Dtype dtype : kFloating) {
        for (const std::int64_t length : {65, 3001}) {
            TestArray x(dtype, {3, length}), y(dtype, {3, length}), z(dtype, {3, length});
            x.fill(random);
            const View in = gpu->put(x), out = gpu->put(y), again = gpu->put(x);
            softmax(gpu->stream, in, out);
            softmax(gpu->stream, in, in);
            gpu->get(in, z);
            gpu->get(out, y);
            EXPECT_EQ(z.memory(), y.memory());
            log_softmax(gpu->stream, again, out);
            log_softmax(gpu->stream, again, again);
            gpu->get(again, z);
            gpu->get(out, y);
            EXPECT_EQ(z.memory(), y.memory());
        }
    }
}

TEST_F(SoftmaxCuda, GradientIsThatOfTheCpuInEveryDtypeAndLayoutAndAdds) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    for (const Shape& shape : kShapes) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                if (test::left_out(dtype, layout)) continue;
                for (const bool logarithm : {false, true}) {
                    TestArray x(dtype, shape, layout), y(dtype, shape, layout), dy(dtype, shape, layout);
                    x.fill(random);
                    dy.fill(random);
                    SCOPED_TRACE(describe(x));
                    logarithm ? log_softmax(cpu, x, y) : softmax(cpu, x, y);
                    TestArray expected(Dtype::f64, shape), dx(dtype, shape, layout), wide(Dtype::f32, shape);
                    for (std::int64_t i = 0; i < x.numel(); ++i) wide.set(i, 2);
                    const View in = gpu->put(y), upstream = gpu->put(dy), out = gpu->put(dx), sum = gpu->put(wide);
                    if (logarithm) {
                        log_softmax_backward(cpu, test::converted(y, Dtype::f64), test::converted(dy, Dtype::f64),
                                             expected, 0);
                        log_softmax_backward(gpu->stream, in, upstream, out, 0);
                        log_softmax_backward(gpu->stream, in, upstream, sum, 1);
                    } else {
                        softmax_backward(cpu, test::converted(y, Dtype::f64), test::converted(dy, Dtype::f64), expected,
                                         0);
                        softmax_backward(gpu->stream, in, upstream, out, 0);
                        softmax_backward(gpu->stream, in, upstream, sum, 1);
                    }
                    gpu->get(out, dx);
                    gpu->get(sum, wide);
                    const double bound = error_of(dtype, shape.back());
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

TEST_F(SoftmaxCuda, GradientTakesABroadcastUpstreamGradientAndMayOverwriteIt) {
    std::mt19937_64 random = seeded();
    CpuStream cpu;
    TestArray y(Dtype::f32, {3, 70}), dy(Dtype::f32, {3, 70}), one(Dtype::f32, {}), dx(Dtype::f32, {3, 70});
    y.fill(random);
    one.set(0, 0.5);
    for (std::int64_t i = 0; i < dy.numel(); ++i) dy.set(i, 0.5);
    const View in = gpu->put(y), upstream = gpu->put(dy), out = gpu->put(dx);
    softmax_backward(gpu->stream, in, broadcast_to(gpu->put(one), {3, 70}), out, 0);
    gpu->get(out, dx);
    softmax_backward(gpu->stream, in, upstream, upstream, 0);
    gpu->get(upstream, dy);
    TestArray expected(Dtype::f64, {3, 70}), half(Dtype::f64, {3, 70});
    for (std::int64_t i = 0; i < half.numel(); ++i) half.set(i, 0.5);
    softmax_backward(cpu, test::converted(y, Dtype::f64), half, expected, 0);
    for (std::int64_t i = 0; i < dx.numel(); ++i) {
        EXPECT_NEAR(dx.get(i), expected.get(i), error_of(Dtype::f32, 70));
        EXPECT_NEAR(dy.get(i), expected.get(i), error_of(Dtype::f32, 70));
    }
}

TEST_F(SoftmaxCuda, AndItsGradientRepeatBitForBit) {
    std::mt19937_64 random = seeded();
    TestArray x(Dtype::f32, {20, 777}), dy(Dtype::f32, {20, 777});
    x.fill(random);
    dy.fill(random);
    std::vector<std::vector<std::byte>> results;
    for (int run = 0; run < 3; ++run) {  // each launch of the emulator has another order of threads
        TestArray dx(Dtype::f32, {20, 777});
        const View in = gpu->put(x), upstream = gpu->put(dy), out = gpu->put(dx);
        softmax(gpu->stream, in, in);
        softmax_backward(gpu->stream, in, upstream, out, 0);
        gpu->get(out, dx);
        results.push_back(dx.memory());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

TEST_F(SoftmaxCuda, TakesEmptyViews) {
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
        TestArray x(Dtype::f32, shape);
        const View in = gpu->put(x);
        softmax(gpu->stream, in, in);
        log_softmax(gpu->stream, in, in);
        softmax_backward(gpu->stream, in, in, in, 0);
        log_softmax_backward(gpu->stream, in, in, in, 0);
    }
}

}  // namespace
}  // namespace headroom::kernels
