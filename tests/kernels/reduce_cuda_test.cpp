#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/tests/kernels/gpu.hpp>
#include <headroom/tests/kernels/planned.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::CudaTest;
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

// Rows: by threads, warps and blocks, in several parts, with runs and rests. Columns: narrow and wide, in several tiles
// and parts. Sizes of 1, nothing to reduce.
const Case kCases[] = {{{5, 7}, {5, 1}},
                       {{5, 7}, {7}},
                       {{3, 4, 5}, {3, 1, 5}},
                       {{3, 4, 5}, {1, 4, 1}},
                       {{2, 3, 4, 5}, {2, 1, 4, 1}},
                       {{2, 3, 2, 3, 2, 3}, {2, 1, 1, 3, 1, 3}},
                       {{4, 1}, {4, 1}},
                       {{}, {}},
                       {{3, 4}, {3, 4}},
                       {{70, 33}, {70, 1}},
                       {{20, 64}, {20, 1}},
                       {{3, 1025}, {3, 1}},
                       {{2, 5000}, {2, 1}},
                       {{4, 3, 1032}, {1, 3, 1}},
                       {{16403}, {1}},
                       {{2, 16400}, {2, 1}},
                       {{600, 3}, {3}},
                       {{1030, 40}, {40}},
                       {{300, 520}, {1, 520}},
                       {{2, 17, 24}, {2, 1, 24}}};

class ReduceCuda : public CudaTest {
  protected:
    void sum_on_device(const TestArray& x, double scale, TestArray& y, float beta) {
        const View dx = gpu->put(x), dy = gpu->put(y);
        gpu->run<SumPlan>(dx, scale, dy, beta);
        gpu->get(dy, y);
    }
};

/// The CPU's sums in f64 of x and of |x|.
struct Sums {
    explicit Sums(const TestArray& x, const Shape& to) : sum(Dtype::f64, to), magnitude(Dtype::f64, to) {
        CpuStream host;
        TestArray wide = test::converted(x, Dtype::f64);
        test::run<SumPlan>(host, wide, 1.0, sum, 0.0f);
        for (std::int64_t i = 0; i < wide.numel(); ++i) wide.set(i, std::abs(wide.get(i)));
        test::run<SumPlan>(host, wide, 1.0, magnitude, 0.0f);
    }
    TestArray sum, magnitude;
};

TEST_F(ReduceCuda, SumIsRightForEveryDtypeLayoutAndSetOfAxes) {
    std::mt19937_64 random(101);
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                for (const float beta : {0.0f, 1.0f}) {
                    if (test::kRaces && beta != 0 && layout != Layout::contiguous) continue;
                    TestArray x(dtype, c.x, layout), y(dtype, c.y, layout);
                    x.fill(random);
                    if (beta != 0) y.fill(random);
                    const auto before = y.values();
                    SCOPED_TRACE(describe(x) + " to " + describe(y));
                    sum_on_device(x, 0.25, y, beta);
                    const Sums expected(x, c.y);
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        const double old = beta != 0 ? before[static_cast<std::size_t>(i)] : 0;
                        const double value = 0.25 * expected.sum.get(i) + old;
                        const double unit = epsilon(test::compute_dtype(dtype));
                        const double bound =
                            0.25 * 64 * unit * expected.magnitude.get(i) + test::rounding(dtype, value);
                        ASSERT_NEAR(y.get(i), value, bound) << i;
                    }
                    ASSERT_TRUE(y.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(ReduceCuda, SumHasAnErrorThatDoesNotGrowWithTheLength) {
    std::mt19937_64 random(102);
    for (const Case& c : {Case{{1 << 18}, {1}}, Case{{1 << 16, 4}, {4}}, Case{{3, 1 << 16}, {3, 1}}}) {
        TestArray x(Dtype::f32, c.x), y(Dtype::f32, c.y);
        x.fill(random, 1, 0.1);
        sum_on_device(x, 1, y, 0);
        const Sums expected(x, c.y);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            EXPECT_NEAR(y.get(i), expected.sum.get(i), 4 * epsilon(Dtype::f32) * expected.magnitude.get(i));
        }
    }
}

/// Beside 2^24 a one is lost in f32: the thread that meets it loses 31 at most before it goes on in f64.
TEST_F(ReduceCuda, SumMovesOnToF64After32Elements) {
    TestArray x(Dtype::f32, {2, 16383}), y(Dtype::f64, {2, 1});  // rows of single elements
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, i == 0 ? 0x1p24 : 1);
    sum_on_device(x, 1, y, 0);
    EXPECT_LE(y.get(0), 0x1p24 + 16382);
    EXPECT_GE(y.get(0), 0x1p24 + 16382 - 31);
}

TEST_F(ReduceCuda, SumGivesTheSameBitsInAnyOrderOfBlocks) {
    std::mt19937_64 random(103);
    for (const Case& c : {Case{{1030, 40}, {40}}, Case{{40000}, {1}}, Case{{7, 5000}, {7, 1}}, Case{{9, 33}, {9, 1}}}) {
        TestArray x(Dtype::f32, c.x), first(Dtype::f32, c.y);
        x.fill(random);
        sum_on_device(x, 1, first, 0);
        for (int run = 0; run < 3; ++run) {
            gpu = std::make_unique<test::Gpu>();
            TestArray y(Dtype::f32, c.y);
            sum_on_device(x, 1, y, 0);
            EXPECT_EQ(y.memory(), first.memory()) << describe(x);
        }
    }
}

/// The same numbers, beginning elsewhere in memory.
TEST_F(ReduceCuda, SumGivesTheSameBitsWhereverTheArrayBegins) {
    std::mt19937_64 random(104);
    for (const Dtype dtype : kFloating) {
        for (const Case& c : {Case{{1030, 40}, {40}}, Case{{20005}, {1}}, Case{{7, 1024}, {7, 1}}}) {
            TestArray room(dtype, {c.x.numel() + 1}), first(Dtype::f32, c.y);
            TestArray x(dtype, c.x);
            x.fill(random);
            for (std::int64_t i = 0; i < x.numel(); ++i) room.set(i + 1, x.get(i));
            sum_on_device(x, 1, first, 0);
            TestArray y(Dtype::f32, c.y);
            const View all = gpu->put(room), dy = gpu->put(y);
            gpu->run<SumPlan>(contiguous_view(all.at(1), dtype, c.x), 1.0, dy, 0.0f);
            gpu->get(dy, y);
            EXPECT_EQ(y.memory(), first.memory()) << describe(x);
        }
    }
}

TEST_F(ReduceCuda, SumTakesPartsOfRowsBroadcastAndReversedInputs) {
    std::mt19937_64 random(105);
    TestArray x(Dtype::bf16, {700, 56}), magnitudes(Dtype::bf16, {700, 56});
    x.fill(random);
    for (std::int64_t i = 0; i < x.numel(); ++i) magnitudes.set(i, std::abs(x.get(i)));
    const View dx = gpu->put(x);
    CpuStream host;
    const auto check = [&](const Shape& shape, const Strides& strides, std::int64_t begin, const Shape& to) {
        TestArray y(Dtype::f32, to), expected(Dtype::f64, to), magnitude(Dtype::f64, to);
        const View part{dx.at(begin), dx.dtype, shape, strides}, dy = gpu->put(y);
        const View same{x.view().at(begin), dx.dtype, shape, strides};
        gpu->run<SumPlan>(part, 1.0, dy, 0.0f);
        gpu->get(dy, y);
        test::run<SumPlan>(host, same, 1.0, expected, 0.0f);
        test::run<SumPlan>(host, View{magnitudes.view().at(begin), dx.dtype, shape, strides}, 1.0, magnitude, 0.0f);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            const double bound = 4 * epsilon(Dtype::f32) * magnitude.get(i);
            EXPECT_NEAR(y.get(i), expected.get(i), bound) << describe(part) << " " << i;
        }
    };
    check({700, 52}, {56, 1}, 0, {52});  // the last group of columns is cut off
    check({700, 52}, {56, 1}, 4, {1, 52});
    check({700, 53}, {56, 1}, 0, {700, 1});  // as are rows
    check({350, 2, 48}, {112, 56, 1}, 0, {2, 1});
    check({5, 56}, {0, 1}, 0, {56});
    check({5, 56}, {0, 1}, 0, {1, 1});
    check({5, 56}, {0, 1}, 0, {5, 1});
    check({3, 56}, {56, -1}, 55, {56});
    check({700, 56}, {-56, -1}, 700 * 56 - 1, {700, 1});
}

TEST_F(ReduceCuda, SumOfNothingIsZeroAndOfIntegersAndBoolsExact) {
    TestArray empty(Dtype::f32, {0, 3}), y(Dtype::f32, {1, 3});
    sum_on_device(empty, 1, y, 0);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 0}));
    for (int i = 0; i < 3; ++i) y.set(i, i);
    sum_on_device(empty, 1, y, 1);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 1, 2}));
    TestArray nothing(Dtype::f32, {3, 0}), rows(Dtype::f32, {3, 1}), no_output(Dtype::f32, {0, 1});
    sum_on_device(nothing, 1, rows, 0);
    EXPECT_EQ(rows.values(), (std::vector<double>{0, 0, 0}));
    sum_on_device(empty, 1, no_output, 0);

    TestArray integers(Dtype::i64, {3}), total(Dtype::i64, {1});
    for (int i = 0; i < 3; ++i) integers.set(i, 1e15 + i);
    sum_on_device(integers, 1, total, 0);
    EXPECT_EQ(total.get_integer(0), 3000000000000003);
    TestArray flags(Dtype::boolean, {4000}), count(Dtype::f32, {1});
    for (int i = 0; i < 4000; ++i) flags.set(i, i % 2);
    sum_on_device(flags, 1, count, 0);
    EXPECT_EQ(count.get(0), 2000);
    TestArray numbers(Dtype::i32, {300, 3}), totals(Dtype::i32, {3});
    for (int i = 0; i < 900; ++i) numbers.set(i, 100000 * (i % 3));
    sum_on_device(numbers, 1, totals, 0);
    EXPECT_EQ(totals.values(), (std::vector<double>{0, 3e7, 6e7}));
}

TEST_F(ReduceCuda, RehearsalsKnowTheScratchAndTheCpuNeedsNone) {
    Stream cuda = gpu->stream, rehearsal = DryStream{.cuda = true}, cpu = CpuStream{};
    const TestArray x(Dtype::f32, {1030, 40}), y(Dtype::f32, {40});
    const View shape_only{nullptr, Dtype::f32, {1030, 40}, {40, 1}};
    EXPECT_GT(SumPlan(cuda, x, 1, y, 0).scratch(), 0u);
    EXPECT_EQ(SumPlan(rehearsal, shape_only, 1, y, 0).scratch(), SumPlan(cuda, x, 1, y, 0).scratch());
    EXPECT_EQ(SumPlan(cpu, x, 1, y, 0).scratch(), 0u);
    EXPECT_EQ(MomentsPlan(cpu, x, 1, y, y).scratch(), 0u);
}

TEST_F(ReduceCuda, SumBackwardStretchesAndScales) {
    CpuStream host;
    std::mt19937_64 random(106);
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const Case& c :
                 {Case{{5, 7}, {5, 1}}, Case{{3, 64}, {1, 64}}, Case{{9, 64}, {9, 1}}, Case{{77}, {1}}}) {
                for (const float beta : {0.0f, 1.0f}) {
                    TestArray dy(dtype, c.y, layout), dx(dtype, c.x, layout), expected(dtype, c.x);
                    dy.fill(random);
                    if (beta != 0) dx.fill(random);
                    if (beta != 0)
                        for (std::int64_t i = 0; i < dx.numel(); ++i) expected.set(i, dx.get(i));
                    const View from = gpu->put(dy), to = gpu->put(dx);
                    sum_backward(gpu->stream, from, 0.25, to, beta);
                    gpu->get(to, dx);
                    sum_backward(host, dy, 0.25, expected, beta);
                    ASSERT_EQ(dx.values(), expected.values()) << describe(dx);
                    ASSERT_TRUE(dx.gaps_untouched());
                }
            }
        }
    }
}

TEST_F(ReduceCuda, AmaxAndAminAreExactForEveryDtypeLayoutAndSetOfAxes) {
    std::mt19937_64 random(107);
    CpuStream host;
    for (const Case& c : kCases) {
        for (const Dtype dtype : kFloating) {
            for (const Layout layout : kLayouts) {
                TestArray x(dtype, c.x, layout), largest(dtype, c.y, layout), smallest(dtype, c.y);
                TestArray high(dtype, c.y), low(dtype, c.y);
                x.fill(random);
                SCOPED_TRACE(describe(x) + " to " + describe(largest));
                const View dx = gpu->put(x), to_high = gpu->put(largest), to_low = gpu->put(smallest);
                gpu->run<AmaxPlan>(dx, to_high);
                gpu->run<AminPlan>(dx, to_low);
                gpu->get(to_high, largest), gpu->get(to_low, smallest);
                test::run<AmaxPlan>(host, x, high), test::run<AminPlan>(host, x, low);
                ASSERT_EQ(largest.values(), high.values());
                ASSERT_EQ(smallest.values(), low.values());
                ASSERT_TRUE(largest.gaps_untouched());
            }
        }
    }
}

TEST_F(ReduceCuda, AmaxIsNanIfOneElementIsWhereverItStands) {
    for (const Shape& shape : {Shape{1, 100}, Shape{100, 1}, Shape{10, 10}}) {
        for (std::int64_t i = 0; i < 100; ++i) {
            TestArray x(Dtype::f32, shape), y(Dtype::f32, {1, 1}), z(Dtype::f32, {1, 1});
            for (std::int64_t j = 0; j < 100; ++j) x.set(j, j % 3 == 0 ? -kInfinity : kInfinity);
            x.set(i, kNan);
            const View dx = gpu->put(x), to_y = gpu->put(y), to_z = gpu->put(z);
            gpu->run<AmaxPlan>(dx, to_y);
            gpu->run<AminPlan>(dx, to_z);
            gpu->get(to_y, y), gpu->get(to_z, z);
            ASSERT_TRUE(std::isnan(y.get(0)) && std::isnan(z.get(0))) << i;
        }
    }
}

TEST_F(ReduceCuda, ExtremumBackwardSharesAsTheHostDoes) {
    std::mt19937_64 random(108);
    CpuStream host;
    Stream any = gpu->stream, cpu = host;
    for (const Dtype dtype : kFloating) {
        for (const Case& c : {Case{{5, 7}, {5, 1}}, Case{{40, 24}, {24}}, Case{{16403}, {1}}, Case{{9, 64}, {9, 1}},
                              Case{{700, 40}, {40}}, Case{{300, 5}, {5}}}) {
            for (const float beta : {0.0f, 1.0f}) {
                TestArray x(dtype, c.x), y(dtype, c.y), dy(dtype, c.y), dx(dtype, c.x);
                x.fill_indices(random, 4);  // many ties
                x.set(3, kNan);
                dy.fill(random);
                if (beta != 0) dx.fill(random);
                test::run<AmaxPlan>(host, x, y);
                TestArray expected(dx);
                test::run<ExtremumGradientPlan>(host, x, y, dy, expected, beta);
                const View to = gpu->put(dx);
                gpu->run<ExtremumGradientPlan>(gpu->put(x), gpu->put(y), gpu->put(dy), to, beta);
                gpu->get(to, dx);
                for (std::int64_t i = 0; i < dx.numel(); ++i) {
                    const double value = expected.get(i);
                    ASSERT_NEAR(dx.get(i), value, 2 * test::rounding(dtype, value)) << describe(x) << " " << i;
                }
            }
        }
    }
}

TEST_F(ReduceCuda, MomentsKeepTheirDigitsWhenTheMeanIsLarge) {
    std::mt19937_64 random(109);
    CpuStream host;
    Stream any = gpu->stream;
    for (const Case& c : {Case{{8, 4000}, {8, 1}}, Case{{4000, 8}, {1, 8}}, Case{{4, 50, 6, 10}, {1, 50, 1, 1}},
                          Case{{20005}, {1}}, Case{{600, 3}, {3}}}) {
        for (const double correction : {0.0, 1.0}) {
            TestArray x(Dtype::f32, c.x), mean(Dtype::f32, c.y), variance(Dtype::f32, c.y);
            TestArray exact_mean(Dtype::f64, c.y), exact_variance(Dtype::f64, c.y);
            x.fill(random, 1000, 1);
            test::run<MomentsPlan>(host, test::converted(x, Dtype::f64), correction, exact_mean, exact_variance);
            const View to_mean = gpu->put(mean), to_variance = gpu->put(variance);
            gpu->run<MomentsPlan>(gpu->put(x), correction, to_mean, to_variance);
            gpu->get(to_mean, mean), gpu->get(to_variance, variance);
            for (std::int64_t i = 0; i < mean.numel(); ++i) {
                EXPECT_NEAR(mean.get(i), exact_mean.get(i), 1000 * 2 * epsilon(Dtype::f32));
                // Rounding the mean (relative error e) adds (1000 e)^2 at most.
                EXPECT_NEAR(variance.get(i), exact_variance.get(i), 40 * epsilon(Dtype::f32) + 1.5e-8);
            }
        }
    }
}

TEST_F(ReduceCuda, MomentsOfF64AreTheHosts) {
    std::mt19937_64 random(111);
    CpuStream host;
    Stream any = gpu->stream;
    for (const Case& c : {Case{{3, 1025}, {3, 1}}, Case{{600, 3}, {3}}, Case{{31, 33}, {31, 1}}}) {
        TestArray x(Dtype::f64, c.x), mean(Dtype::f64, c.y), variance(Dtype::f64, c.y), exact_mean(mean);
        TestArray exact_variance(variance);
        x.fill(random, 10, 1);
        test::run<MomentsPlan>(host, x, 1, exact_mean, exact_variance);
        const View to_mean = gpu->put(mean), to_variance = gpu->put(variance);
        gpu->run<MomentsPlan>(gpu->put(x), 1, to_mean, to_variance);
        gpu->get(to_mean, mean), gpu->get(to_variance, variance);
        for (std::int64_t i = 0; i < mean.numel(); ++i) {
            // Each of up to 1025 additions is wrong by half a unit of what has been summed by then, on both devices.
            EXPECT_NEAR(mean.get(i), exact_mean.get(i), 1025 * epsilon(Dtype::f64) * 20);
            EXPECT_NEAR(variance.get(i), exact_variance.get(i), 1025 * epsilon(Dtype::f64) * 4);
        }
    }
}

TEST_F(ReduceCuda, VarianceBackwardIsTheHostsInF64) {
    std::mt19937_64 random(110);
    CpuStream host;
    for (const Dtype dtype : kFloating) {
        for (const Case& c : {Case{{3, 5}, {3, 1}}, Case{{9, 64}, {9, 1}}, Case{{9, 64}, {64}}}) {
            const Dtype wide = test::compute_dtype(dtype);
            TestArray x(dtype, c.x), mean(wide, c.y), dvariance(dtype, c.y), dx(wide, c.x);
            TestArray expected(Dtype::f64, c.x);
            x.fill(random), mean.fill(random), dvariance.fill(random), dx.fill(random);
            for (std::int64_t i = 0; i < dx.numel(); ++i) expected.set(i, dx.get(i));
            variance_backward(host, test::converted(x, Dtype::f64), mean, dvariance, 1, expected, 1);
            const View to = gpu->put(dx);
            variance_backward(gpu->stream, gpu->put(x), gpu->put(mean), gpu->put(dvariance), 1, to, 1);
            gpu->get(to, dx);
            for (std::int64_t i = 0; i < dx.numel(); ++i) {
                // Four operations on numbers below 10.
                ASSERT_NEAR(dx.get(i), expected.get(i), 4 * epsilon(wide) * (std::abs(expected.get(i)) + 10));
            }
        }
    }
}

}  // namespace
}  // namespace headroom::kernels
