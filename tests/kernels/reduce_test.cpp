#include <headroom/kernels/reduce/reduce.hpp>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/planned.hpp>
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

struct Case {
    Shape x, y;
};

// Every kind of loop: rows, columns, both, several runs, blocks with a rest, parts, sizes of 1, nothing to reduce.
const Case kCases[] = {{{5, 7}, {5, 1}},
                       {{5, 7}, {1, 7}},
                       {{5, 7}, {7}},
                       {{5, 7}, {1, 1}},
                       {{3, 4, 5}, {3, 1, 5}},
                       {{3, 4, 5}, {1, 4, 1}},
                       {{3, 4, 5}, {4, 5}},
                       {{2, 3, 4, 5}, {1, 3, 1, 5}},
                       {{2, 3, 4, 5}, {2, 1, 4, 1}},
                       {{300, 517}, {1, 517}},
                       {{3, 2500}, {3, 1}},
                       {{70, 300}, {70, 1}},
                       {{4, 1}, {4, 1}},
                       {{6}, {1}},
                       {{}, {}},
                       {{2, 20000}, {2, 1}},
                       {{3, 4}, {3, 4}},
                       {{6000, 3}, {3}},
                       {{2, 3, 2, 3, 2, 3}, {2, 1, 1, 3, 1, 3}}};

/// For each element of x the position of the element of y that it is reduced into.
std::vector<std::int64_t> destinations(const Case& c) {
    std::vector<std::int64_t> result;
    const int missing = c.x.rank() - c.y.rank();
    const Strides strides = contiguous_strides(c.y);
    for (std::int64_t i = 0; i < c.x.numel(); ++i) {
        std::int64_t rest = i, to = 0;
        for (int axis = c.x.rank() - 1; axis >= 0; --axis) {
            const std::int64_t position = rest % c.x[axis];
            rest /= c.x[axis];
            if (axis >= missing && c.y[axis - missing] != 1) to += position * strides[axis - missing];
        }
        result.push_back(to);
    }
    return result;
}

struct Sums {
    std::vector<double> sum, magnitude;
};

Sums reference_sums(const Case& c, const TestArray& x) {
    const auto to = destinations(c);
    Sums sums{std::vector<double>(static_cast<std::size_t>(c.y.numel())),
              std::vector<double>(static_cast<std::size_t>(c.y.numel()))};
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto j = static_cast<std::size_t>(to[static_cast<std::size_t>(i)]);
        sums.sum[j] += x.get(i);
        sums.magnitude[j] += std::abs(x.get(i));
    }
    return sums;
}

TEST(Sum, IsRightForEveryDtypeLayoutAndSetOfAxes) {
    std::mt19937_64 random(1);
    CpuStream stream{.threads = 2};
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f}) {
                    TestArray x(dtype, c.x, layout), y(dtype, c.y, layout);
                    x.fill(random);
                    if (beta != 0) y.fill(random);
                    const auto before = y.values();
                    SCOPED_TRACE(describe(x) + " to " + describe(y));
                    test::run<SumPlan>(stream, x, 0.25, y, beta);
                    const Sums expected = reference_sums(c, x);
                    for (std::size_t i = 0; i < before.size(); ++i) {
                        const double value = 0.25 * expected.sum[i] + (beta != 0 ? before[i] : 0);
                        const double bound = 0.25 * 64 * epsilon(test::compute_dtype(dtype)) * expected.magnitude[i] +
                                             epsilon(dtype) * std::abs(value);
                        ASSERT_NEAR(y.get(static_cast<std::int64_t>(i)), value, bound);
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST(Sum, HasAnErrorThatDoesNotGrowWithTheLength) {
    std::mt19937_64 random(2);
    CpuStream stream{.threads = 2};
    for (const Case& c : {Case{{1 << 20}, {1}}, Case{{1 << 18, 4}, {4}}, Case{{3, 1 << 18}, {3, 1}}}) {
        TestArray x(Dtype::f32, c.x), y(Dtype::f32, c.y);
        x.fill(random, 1, 0.1);
        const Sums expected = reference_sums(c, x);
        test::run<SumPlan>(stream, x, 1.0, y, 0.0f);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            const auto j = static_cast<std::size_t>(i);
            EXPECT_NEAR(y.get(i), expected.sum[j], 4 * epsilon(Dtype::f32) * expected.magnitude[j]) << describe(x);
        }
    }
}

TEST(Sum, GivesTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(3);
    for (const Case& c : {Case{{768, 512}, {512}}, Case{{1 << 18}, {1}}, Case{{7, 30000}, {7, 1}},
                          Case{{40, 50, 60}, {1, 50, 1}}, Case{{100, 5000}, {5000}}}) {
        TestArray x(Dtype::f32, c.x);
        x.fill(random);
        TestArray one(Dtype::f32, c.y);
        CpuStream single{.threads = 1};
        test::run<SumPlan>(single, x, 1.0, one, 0.0f);
        for (const int threads : {2, 3, 7}) {
            TestArray y(Dtype::f32, c.y);
            CpuStream stream{.threads = threads};
            test::run<SumPlan>(stream, x, 1.0, y, 0.0f);
            EXPECT_EQ(y.memory(), one.memory()) << describe(x) << " with " << threads << " threads";
        }
    }
}

TEST(Sum, OfHalvesGoesIntoAWiderDestinationUnrounded) {
    std::mt19937_64 random(4);
    CpuStream stream{.threads = 2};
    TestArray x(Dtype::bf16, {64, 48}), y(Dtype::f32, {48});
    x.fill(random);
    y.fill(random);
    const auto before = y.values();
    const Sums expected = reference_sums({{64, 48}, {48}}, x);
    test::run<SumPlan>(stream, x, 1.0, y, 1.0f);
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_NEAR(y.get(static_cast<std::int64_t>(i)), before[i] + expected.sum[i],
                    8 * epsilon(Dtype::f32) * (expected.magnitude[i] + std::abs(before[i])));
    }
}

TEST(Sum, TakesBroadcastAndReversedInputs) {
    CpuStream stream;
    float values[] = {1, 2, 4};
    TestArray y(Dtype::f32, {1, 1});
    test::run<SumPlan>(stream, View{values, Dtype::f32, {5, 3}, {0, 1}}, 1.0, y, 0.0f);
    EXPECT_EQ(y.get(0), 35);
    TestArray rows(Dtype::f32, {5, 1});
    test::run<SumPlan>(stream, View{values, Dtype::f32, {5, 3}, {0, 1}}, 1.0, rows, 0.0f);
    EXPECT_EQ(rows.get(4), 7);
    TestArray columns(Dtype::f32, {1, 3});
    test::run<SumPlan>(stream, View{values + 2, Dtype::f32, {2, 3}, {0, -1}}, 1.0, columns, 0.0f);
    EXPECT_EQ(columns.values(), (std::vector<double>{8, 4, 2}));
}

TEST(Sum, OfNothingIsZeroAndOfIntegersAndBoolsExact) {
    CpuStream stream;
    TestArray empty(Dtype::f32, {0, 3}), y(Dtype::f32, {1, 3});
    test::run<SumPlan>(stream, empty, 1.0, y, 0.0f);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 0}));
    TestArray no_output(Dtype::f32, {0, 1});
    test::run<SumPlan>(stream, empty, 1.0, no_output, 0.0f);

    TestArray integers(Dtype::i64, {3}), total(Dtype::i64, {1});
    for (int i = 0; i < 3; ++i) integers.set(i, 1e15 + i);
    test::run<SumPlan>(stream, integers, 1.0, total, 0.0f);
    EXPECT_EQ(total.get_integer(0), 3000000000000003);
    TestArray flags(Dtype::boolean, {4}), count(Dtype::f32, {1});
    for (int i = 0; i < 4; ++i) flags.set(i, i % 2);
    test::run<SumPlan>(stream, flags, 1.0, count, 0.0f);
    EXPECT_EQ(count.get(0), 2);
}

TEST(SumBackward, StretchesAndScales) {
    CpuStream stream;
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            TestArray dy(dtype, {2, 1}, layout), dx(dtype, {2, 3}, layout);
            dy.set(0, 4), dy.set(1, -8);
            sum_backward(stream, dy, 0.25, dx, 0);
            EXPECT_EQ(dx.values(), (std::vector<double>{1, 1, 1, -2, -2, -2}));
            sum_backward(stream, dy, 0.25, dx, 1);
            EXPECT_EQ(dx.values(), (std::vector<double>{2, 2, 2, -4, -4, -4}));
            EXPECT_TRUE(dx.gaps_untouched());
        }
    }
}

TEST(Amax, AndAminAreExactForEveryDtypeLayoutAndSetOfAxes) {
    std::mt19937_64 random(5);
    CpuStream stream{.threads = 2};
    for (const Case& c : kCases) {
        const auto to = destinations(c);
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                TestArray x(dtype, c.x, layout), largest(dtype, c.y, layout), smallest(dtype, c.y);
                x.fill(random);
                SCOPED_TRACE(describe(x) + " to " + describe(largest));
                std::vector<double> high(static_cast<std::size_t>(c.y.numel()), -kInfinity);
                std::vector<double> low(high.size(), kInfinity);
                for (std::int64_t i = 0; i < x.numel(); ++i) {
                    const auto j = static_cast<std::size_t>(to[static_cast<std::size_t>(i)]);
                    high[j] = std::max(high[j], x.get(i));
                    low[j] = std::min(low[j], x.get(i));
                }
                test::run<AmaxPlan>(stream, x, largest);
                test::run<AminPlan>(stream, x, smallest);
                ASSERT_EQ(largest.values(), high);
                ASSERT_EQ(smallest.values(), low);
            }
        }
    }
}

TEST(Amax, IsNanIfOneElementIsWhereverItStands) {
    CpuStream stream;
    for (const Shape& shape : {Shape{1, 100}, Shape{100, 1}}) {
        for (std::int64_t i = 0; i < 100; ++i) {
            TestArray x(Dtype::f32, shape), y(Dtype::f32, {1, 1}), z(Dtype::f32, {1, 1});
            for (std::int64_t j = 0; j < 100; ++j) x.set(j, static_cast<double>(j));
            x.set(i, kNan);
            test::run<AmaxPlan>(stream, x, y);
            test::run<AminPlan>(stream, x, z);
            EXPECT_TRUE(std::isnan(y.get(0)) && std::isnan(z.get(0))) << i;
        }
    }
}

TEST(ExtremumBackward, SharesEvenlyAmongTies) {
    CpuStream stream;
    for (const Dtype dtype : kFloating) {
        TestArray x(dtype, {2, 4}), y(dtype, {2, 1}), dy(dtype, {2, 1}), dx(dtype, {2, 4});
        const double values[] = {3, 1, 3, 2, -1, 5, 0, 5};
        for (int i = 0; i < 8; ++i) x.set(i, values[i]), dx.set(i, 1);
        dy.set(0, 4), dy.set(1, 6);
        test::run<AmaxPlan>(stream, x, y);
        test::run<ExtremumGradientPlan>(stream, x, y, dy, dx, 1.0f);
        EXPECT_EQ(dx.values(), (std::vector<double>{3, 1, 3, 1, 1, 4, 1, 4}));
    }
}

TEST(ExtremumBackward, ReachesColumnsAndNan) {
    CpuStream stream;
    TestArray x(Dtype::f32, {3, 2}), y(Dtype::f32, {2}), dy(Dtype::f32, {2}), dx(Dtype::f32, {3, 2});
    const double values[] = {1, kNan, 1, 2, 0, kNan};
    for (int i = 0; i < 6; ++i) x.set(i, values[i]);
    dy.set(0, 2), dy.set(1, 4);
    test::run<AmaxPlan>(stream, x, y);
    test::run<ExtremumGradientPlan>(stream, x, y, dy, dx, 0.0f);
    EXPECT_EQ(dx.values(), (std::vector<double>{1, 2, 1, 0, 0, 2}));
}

TEST(Moments, KeepTheirDigitsWhenTheMeanIsLarge) {
    std::mt19937_64 random(6);
    CpuStream stream{.threads = 2};
    for (const Case& c : {Case{{8, 4000}, {8, 1}}, Case{{4000, 8}, {1, 8}}, Case{{4, 50, 6, 10}, {1, 50, 1, 1}}}) {
        for (const double correction : {0.0, 1.0}) {
            TestArray x(Dtype::f32, c.x), mean(Dtype::f32, c.y), variance(Dtype::f32, c.y);
            x.fill(random, 1000, 1);
            test::run<MomentsPlan>(stream, x, correction, mean, variance);
            const auto to = destinations(c);
            const Sums sums = reference_sums(c, x);
            const double n = static_cast<double>(x.numel()) / static_cast<double>(mean.numel());
            std::vector<double> squares(sums.sum.size());
            for (std::int64_t i = 0; i < x.numel(); ++i) {
                const auto j = static_cast<std::size_t>(to[static_cast<std::size_t>(i)]);
                squares[j] += std::pow(x.get(i) - sums.sum[j] / n, 2);
            }
            for (std::size_t j = 0; j < squares.size(); ++j) {
                const auto i = static_cast<std::int64_t>(j);
                EXPECT_NEAR(mean.get(i), sums.sum[j] / n, 1000 * 2 * epsilon(Dtype::f32));
                // Rounding the mean (relative error e) adds (1000 e)^2 at most.
                EXPECT_NEAR(variance.get(i), squares[j] / (n - correction), 40 * epsilon(Dtype::f32) + 1.5e-8);
            }
        }
    }
}

TEST(VarianceBackward, AgreesWithFiniteDifferences) {
    std::mt19937_64 random(7);
    CpuStream stream;
    for (const Case& c : {Case{{3, 5}, {3, 1}}, Case{{3, 5}, {1, 5}}}) {
        TestArray x(Dtype::f64, c.x, Layout::gaps), mean(Dtype::f64, c.y), variance(Dtype::f64, c.y);
        TestArray dvariance(Dtype::f64, c.y), dx(Dtype::f64, c.x);
        x.fill(random);
        dvariance.fill(random);
        test::run<MomentsPlan>(stream, x, 1, mean, variance);
        variance_backward(stream, x, mean, dvariance, 1, dx, 0);
        const auto expected = test::finite_differences(x, [&] {
            test::run<MomentsPlan>(stream, x, 1, mean, variance);
            return test::dot(variance, dvariance);
        });
        for (std::int64_t i = 0; i < x.numel(); ++i) {
            EXPECT_NEAR(dx.get(i), expected[static_cast<std::size_t>(i)], 1e-8);
        }
    }
}

TEST(Argmax, FindsTheFirstAmongEqualsAndTheFirstNan) {
    CpuStream stream;
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {2, 3, 2}, layout), high(Dtype::i64, {2, 1, 2}), low(Dtype::i64, {2, 1, 2});
            const double values[] = {1, 5, 4, 5, 4, 0, kNan, 2, 1, kNan, kNan, kNan};
            for (int i = 0; i < 12; ++i) x.set(i, values[i]);
            argmax(stream, x, 1, high);
            argmin(stream, x, 1, low);
            EXPECT_EQ(high.values(), (std::vector<double>{1, 0, 0, 1}));
            EXPECT_EQ(low.values(), (std::vector<double>{0, 2, 0, 1}));
        }
    }
}

TEST(Argmax, SeesAllOfALongLine) {
    CpuStream stream;
    TestArray x(Dtype::f32, {5000}), y(Dtype::i64, {1});
    for (std::int64_t i = 0; i < 5000; ++i) x.set(i, -kInfinity);
    argmax(stream, x, 0, y);
    EXPECT_EQ(y.get(0), 0);
    x.set(4321, -1);
    argmax(stream, x, 0, y);
    EXPECT_EQ(y.get(0), 4321);
}

}  // namespace
}  // namespace headroom::kernels
