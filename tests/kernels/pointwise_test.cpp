#include <headroom/kernels/pointwise/pointwise.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/tests/kernels/test_array.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kFloating;
using test::kLayouts;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Shapes whose walks differ: one run, several, a scalar, rows that merge and that do not, nothing at all.
const Shape kShapes[] = {{}, {1}, {7}, {5, 37}, {3, 1, 50}, {2, 3, 4, 5}, {2, 2500}, {40, 300}, {2, 0, 3}};

void expect_near(const TestArray& y, std::int64_t i, double expected, double error) {
    const double rounding = epsilon(y.view().dtype) * std::abs(expected);
    ASSERT_NEAR(y.get(i), expected, error + rounding) << "element " << i << " of " << describe(y);
}

TEST(Pointwise, MapsEveryLayoutAndDtype) {
    std::mt19937_64 random(1);
    CpuStream stream{2};
    for (const Dtype dtype : kFloating) {
        for (const Shape& shape : kShapes) {
            for (const Layout from : kLayouts) {
                for (const Layout to : kLayouts) {
                    TestArray x(dtype, shape, from), y(dtype, shape, to);
                    x.fill(random);
                    map(stream, Affine{3.0, -1.0}, x, y);
                    for (std::int64_t i = 0; i < y.numel(); ++i) {
                        expect_near(y, i, 3 * x.get(i) - 1, dtype == Dtype::f64 ? 1e-15 : 4e-6);
                    }
                    EXPECT_TRUE(y.gaps_untouched()) << describe(y);
                }
            }
        }
    }
}

TEST(Pointwise, BroadcastsBothInputs) {
    struct Case {
        Shape a, b, y;
    };
    const Case cases[] = {{{4, 5}, {5}, {4, 5}},
                          {{4, 1}, {1, 5}, {4, 5}},
                          {{}, {3000}, {3000}},
                          {{2, 3, 1}, {3, 4}, {2, 3, 4}},
                          {{2, 1, 40, 1}, {3, 1, 70}, {2, 3, 40, 70}},
                          {{1, 2500}, {2, 1}, {2, 2500}}};
    std::mt19937_64 random(2);
    CpuStream stream{2};
    for (const Case& c : cases) {
        for (const Layout layout : kLayouts) {
            TestArray a(Dtype::f32, c.a, layout), b(Dtype::f16, c.b, layout), y(Dtype::f32, c.y, layout);
            a.fill(random);
            b.fill(random);
            TestArray wide_a(Dtype::f32, c.y), wide_b(Dtype::f16, c.y);
            map(stream, Affine{}, broadcast_to(a, c.y), wide_a);
            map(stream, Affine{}, broadcast_to(b, c.y), wide_b);
            map(stream, Mul{}, a, b, y);
            for (std::int64_t i = 0; i < y.numel(); ++i) expect_near(y, i, wide_a.get(i) * wide_b.get(i), 0);
            EXPECT_TRUE(y.gaps_untouched());
        }
    }
}

TEST(Pointwise, MayWriteOverItsInput) {
    std::mt19937_64 random(3);
    CpuStream stream{2};
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {70, 130}, layout), apart(dtype, {70, 130}, layout);
            x.fill(random);
            TestArray same(x);
            map(stream, GeluTanh{}, x, apart);
            map(stream, GeluTanh{}, same, same);
            EXPECT_EQ(same.memory(), apart.memory()) << describe(x);
        }
    }
}

TEST(Pointwise, HasTheSameBitsForAnyNumberOfThreads) {
    std::mt19937_64 random(4);
    for (const Shape& shape : {Shape{100000}, Shape{1000, 130}, Shape{7, 20001}}) {
        for (const Layout layout : kLayouts) {
            TestArray x(Dtype::f32, shape, layout), one(Dtype::f32, shape, layout), many(Dtype::f32, shape, layout);
            x.fill(random);
            CpuStream single{1}, team{5};
            map_backward(single, GeluErf{}, x, x, 0.0f, one);
            map_backward(team, GeluErf{}, x, x, 0.0f, many);
            EXPECT_EQ(one.memory(), many.memory());
        }
    }
}

TEST(Pointwise, AccumulatesGradientsIntoAnyDtype) {
    std::mt19937_64 random(5);
    CpuStream stream{2};
    for (const Dtype dtype : kFloating) {
        for (const Layout layout : kLayouts) {
            for (const float beta : {0.0f, 1.0f, 0.5f}) {
                TestArray x(dtype, {33, 70}, layout), dy(dtype, {33, 70}), dx(Dtype::f32, {33, 70}, layout);
                x.fill(random);
                dy.fill(random);
                if (beta != 0) dx.fill(random);
                const std::vector<double> before = dx.values();
                map_backward(stream, Square{}, x, dy, beta, dx);
                for (std::int64_t i = 0; i < dx.numel(); ++i) {
                    const double old = beta == 0 ? 0 : beta * before[static_cast<std::size_t>(i)];
                    expect_near(dx, i, old + 2 * x.get(i) * dy.get(i), 4e-6);
                }
                EXPECT_TRUE(dx.gaps_untouched());
            }
        }
    }
}

TEST(Pointwise, ComputesIntegersExactly) {
    CpuStream stream{1};
    const std::int64_t large = (1LL << 60) + 1;
    std::int64_t a[3] = {large, -5, 7}, b[3] = {2, 9, 7}, y[3];
    const View va = contiguous_view(a, Dtype::i64, {3}), vb = contiguous_view(b, Dtype::i64, {3}),
               vy = contiguous_view(y, Dtype::i64, {3});
    map(stream, Add{}, va, vb, vy);
    EXPECT_EQ(y[0], large + 2);
    map(stream, Sub{}, va, vb, vy);
    EXPECT_EQ(y[0], large - 2);
    map(stream, Maximum{}, va, vb, vy);
    EXPECT_EQ(y[1], 9);
    map(stream, Neg{}, va, vy);
    EXPECT_EQ(y[0], -large);
    bool truth[3];
    map(stream, Less{}, va, vb, contiguous_view(truth, Dtype::boolean, {3}));
    EXPECT_FALSE(truth[0]);
    EXPECT_TRUE(truth[1]);
    EXPECT_FALSE(truth[2]);
}

TEST(Pointwise, ComparesWithTruthValuesAsResult) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    float a[4] = {1, 2, 2, nan}, b[4] = {2, 1, 2, nan};
    bool y[4];
    const View va = contiguous_view(a, Dtype::f32, {4}), vb = contiguous_view(b, Dtype::f32, {4}),
               vy = contiguous_view(y, Dtype::boolean, {4});
    CpuStream stream{1};
    const auto results = [&] { return std::vector<int>(y, y + 4); };
    map(stream, Equal{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{0, 0, 1, 0}));
    map(stream, NotEqual{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{1, 1, 0, 1}));
    map(stream, Less{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{1, 0, 0, 0}));
    map(stream, LessEqual{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{1, 0, 1, 0}));
    map(stream, Greater{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{0, 1, 0, 0}));
    map(stream, GreaterEqual{}, va, vb, vy);
    EXPECT_EQ(results(), (std::vector<int>{0, 1, 1, 0}));
    map(stream, IsFinite{}, va, vy);
    EXPECT_EQ(results(), (std::vector<int>{1, 1, 1, 0}));
    bool p[4] = {false, false, true, true}, q[4] = {false, true, false, true};
    const View vp = contiguous_view(p, Dtype::boolean, {4}), vq = contiguous_view(q, Dtype::boolean, {4});
    map(stream, LogicalAnd{}, vp, vq, vy);
    EXPECT_EQ(results(), (std::vector<int>{0, 0, 0, 1}));
    map(stream, LogicalOr{}, vp, vq, vy);
    EXPECT_EQ(results(), (std::vector<int>{0, 1, 1, 1}));
    map(stream, LogicalNot{}, vp, vy);
    EXPECT_EQ(results(), (std::vector<int>{1, 1, 0, 0}));
}

TEST(Pointwise, WhereChoosesAndItsGradientReturnsToTheChosen) {
    std::mt19937_64 random(6);
    CpuStream stream{2};
    for (const Dtype dtype : kFloating) {
        TestArray condition(Dtype::boolean, {1, 61}), a(dtype, {50, 61}), b(dtype, {}), y(dtype, {50, 61});
        for (std::int64_t i = 0; i < 61; ++i) condition.set(i, static_cast<double>(random() % 2));
        a.fill(random);
        b.set(0, kNan);  // what is not chosen does not matter
        where(stream, condition, a, b, y);
        TestArray dy(dtype, {50, 61}), da(Dtype::f32, {50, 61}), db(dtype, {50, 61});
        dy.fill(random);
        db.fill(random);
        const std::vector<double> before = db.values();
        where_backward(stream, broadcast_to(condition, {50, 61}), true, dy, 0.0f, da);
        where_backward(stream, condition, false, dy, 1.0f, db);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
            const bool chosen = condition.get(i % 61) != 0;
            ASSERT_EQ(std::isnan(y.get(i)), !chosen);
            if (chosen) {
                ASSERT_EQ(y.get(i), a.get(i));
            }
            expect_near(da, i, chosen ? dy.get(i) : 0.0, 0);
            expect_near(db, i, before[static_cast<std::size_t>(i)] + (chosen ? 0.0 : dy.get(i)), 1e-6);
        }
    }
}

/// A function of a user's program.
struct Cube {
    static constexpr const char* name = "cube";
    static constexpr Saves saves = Saves::input;
    template <class T>
    constexpr T operator()(T x) const {
        return x * x * x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return 3 * x * x;
    }
};

TEST(Pointwise, RunsAFunctionOfTheUsers) {
    CpuStream stream{1};
    TestArray x(Dtype::f64, {3}), y(Dtype::f64, {3}), dx(Dtype::f64, {3});
    for (int i = 0; i < 3; ++i) x.set(i, i - 1.5);
    map(stream, Cube{}, x, y);
    map_backward(stream, Cube{}, x, y, 0.0f, dx);
    EXPECT_EQ(y.get(0), -3.375);
    EXPECT_EQ(dx.get(0), -3.375 * 3 * 2.25);
}

}  // namespace
}  // namespace headroom::kernels
