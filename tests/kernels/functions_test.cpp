#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> range(double low, double high, int count = 4001) {
    std::vector<double> result;
    for (int i = 0; i < count; ++i) result.push_back(low + (high - low) * (i + 0.37) / count);
    return result;
}

template <class T>
View view_of(std::vector<T>& values) {
    return contiguous_view(values.data(), dtype_of<T>, {static_cast<std::int64_t>(values.size())});
}

/// Values in f32 through the kernel against f64; `bound` in epsilons of the result and of the largest |x|.
template <class F>
void expect_values(const F& f, const std::vector<double>& points, double bound) {
    std::vector<float> x(points.begin(), points.end()), y(x.size());
    CpuStream stream{1};
    map(stream, f, view_of(x), view_of(y));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double truth = f(static_cast<double>(x[i]));
        const double scale = std::max(std::abs(truth), 0x1p-126);
        ASSERT_NEAR(y[i], truth, bound * 0x1p-24 * scale) << F::name << " at " << x[i];
    }
}

/// f64 derivative against central differences, then f32 through the kernel against f64. `floor`: absolute error allowed
/// in f32 where the derivative cancels, in epsilons.
template <class F>
void expect_derivative(const F& f, const std::vector<double>& points, double floor = 4) {
    const auto saved = [&](double x) { return F::saves == Saves::output ? f(x) : x; };
    for (const double x : points) {
        const double h = 1e-5 * std::max(1.0, std::abs(x)) * 0.1;
        const double difference = (f(x + h) - f(x - h)) / (2 * h);
        const double derivative = f.derivative(saved(x));
        ASSERT_NEAR(derivative, difference, 1e-7 * std::max({1.0, std::abs(difference), std::abs(f(x))}))
            << F::name << " at " << x;
    }
    std::vector<float> inputs, dy, dx(points.size());
    for (const double x : points) inputs.push_back(static_cast<float>(saved(x)));
    for (std::size_t i = 0; i < points.size(); ++i) dy.push_back(i % 2 ? 1.5f : -0.5f);
    CpuStream stream{1};
    map_backward(stream, f, view_of(inputs), view_of(dy), 0.0f, view_of(dx));
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double truth = f.derivative(static_cast<double>(inputs[i])) * dy[i];
        ASSERT_NEAR(dx[i], truth, 0x1p-24 * (8 * std::abs(truth) + floor)) << F::name << " of " << inputs[i];
    }
}

TEST(Functions, ArithmeticIsRightWithItsDerivatives) {
    expect_values(Neg{}, range(-5, 5), 0);
    expect_derivative(Neg{}, range(-5, 5));
    expect_derivative(Affine{2.5, -0.75}, range(-5, 5));
    expect_values(Abs{}, range(-5, 5), 0);
    expect_derivative(Abs{}, range(-5, 5));
    expect_values(Square{}, range(-5, 5), 1);
    expect_derivative(Square{}, range(-5, 5));
    expect_values(Reciprocal{}, range(0.1, 9), 1);
    expect_derivative(Reciprocal{}, range(0.1, 9));
    expect_values(Sqrt{}, range(0.01, 9), 1);
    expect_derivative(Sqrt{}, range(0.01, 9));
    expect_values(Rsqrt{}, range(0.1, 9), 3);
    expect_derivative(Rsqrt{}, range(0.1, 9));
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.5, 0.3}) {
        expect_values(PowScalar{exponent}, range(0.1, 7), 4);
        expect_derivative(PowScalar{exponent}, range(0.1, 7));
    }
    expect_derivative(PowScalar{3.0}, range(-4, -0.1));
}

TEST(Functions, TranscendentalsAreRightWithTheirDerivatives) {
    expect_values(Exp{}, range(-80, 80), 4);
    expect_derivative(Exp{}, range(-5, 5));
    expect_values(Expm1{}, range(-10, 80), 4);
    expect_derivative(Expm1{}, range(-5, 5));
    expect_values(Log{}, range(0.01, 50), 4);
    expect_derivative(Log{}, range(0.1, 50));
    expect_values(Log1p{}, range(-0.9, 50), 6);
    expect_derivative(Log1p{}, range(-0.8, 50));
    expect_values(Sin{}, range(-40, 40), 4);
    expect_derivative(Sin{}, range(-40, 40));
    expect_values(Cos{}, range(-40, 40), 4);
    expect_derivative(Cos{}, range(-40, 40));
    expect_values(Erf{}, range(-5, 5), 4);
    expect_derivative(Erf{}, range(-5, 5));
}

TEST(Functions, ActivationsAreRightWithTheirDerivatives) {
    expect_values(Relu{}, range(-5, 5), 0);
    expect_derivative(Relu{}, range(-5, 5));
    expect_values(LeakyRelu{0.2}, range(-5, 5), 3);
    expect_derivative(LeakyRelu{0.2}, range(-5, 5));
    expect_values(Elu{1.5}, range(-20, 5), 6);
    expect_derivative(Elu{1.5}, range(-20, 5));
    expect_values(Tanh{}, range(-12, 12), 6);
    expect_derivative(Tanh{}, range(-9, 9), 8);
    expect_values(Sigmoid{}, range(-80, 80), 6);
    expect_derivative(Sigmoid{}, range(-20, 20));
    expect_values(Softplus{}, range(-80, 80), 6);
    expect_derivative(Softplus{}, range(-20, 20));
    expect_values(Silu{}, range(-80, 80), 8);
    expect_derivative(Silu{}, range(-20, 20), 16);
}

TEST(Functions, GelusAreRightWithTheirDerivatives) {
    // The argument of the exponential reaches 10 where the value still counts: its rounding is multiplied by that.
    expect_values(GeluTanh{}, range(-4, 20), 40);
    expect_derivative(GeluTanh{}, range(-12, 12), 40);
    expect_values(GeluErf{}, range(-0.5, 20), 8);
    expect_derivative(GeluErf{}, range(-12, 12), 16);
    for (double x = -12; x < 0; x += 0.01) {  // 1 + erf cancels: exact only in proportion to x
        ASSERT_NEAR(GeluErf{}(static_cast<float>(x)), GeluErf{}(static_cast<double>(static_cast<float>(x))),
                    2 * 0x1p-24 * -x);
    }
}

TEST(Functions, StepsAndClampHaveThePiecesOfTheirDefinition) {
    expect_values(Clamp{-1, 2}, range(-5, 5), 0);
    expect_derivative(Clamp{-1, 2}, range(-5, 5));
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.0)), 1.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(-1.0)), 1.0);
    expect_values(Sign{}, {-2, -0.0, 0, 3}, 0);
    expect_values(Floor{}, range(-5, 5), 0);
    expect_values(Ceil{}, range(-5, 5), 0);
    EXPECT_EQ(Relu{}.derivative(0.0), 0.0);
    EXPECT_EQ(Abs{}.derivative(0.0), 0.0);
}

template <class F>
void expect_partials(const F& f, const std::vector<double>& as, const std::vector<double>& bs) {
    std::vector<float> fa, fb;
    std::vector<double> da, db;
    for (const double a : as) {
        for (const double b : bs) {
            const double h = 1e-6;
            const double size = std::max({1.0, std::abs(f(a, b)), std::abs(f.derivative_b(a, b))});
            ASSERT_NEAR(f.derivative_a(a, b), (f(a + h, b) - f(a - h, b)) / (2 * h), 1e-7 * size) << F::name;
            ASSERT_NEAR(f.derivative_b(a, b), (f(a, b + h) - f(a, b - h)) / (2 * h), 1e-7 * size) << F::name;
            fa.push_back(static_cast<float>(a));
            fb.push_back(static_cast<float>(b));
            da.push_back(f.derivative_a(static_cast<double>(fa.back()), static_cast<double>(fb.back())));
            db.push_back(f.derivative_b(static_cast<double>(fa.back()), static_cast<double>(fb.back())));
        }
    }
    std::vector<float> dy(fa.size(), 1.0f), got_a(fa.size()), got_b(fa.size());
    CpuStream stream{1};
    map_backward_a(stream, f, view_of(fa), view_of(fb), view_of(dy), 0.0f, view_of(got_a));
    map_backward_b(stream, f, view_of(fa), view_of(fb), view_of(dy), 0.0f, view_of(got_b));
    for (std::size_t i = 0; i < fa.size(); ++i) {
        ASSERT_NEAR(got_a[i], da[i], 8 * 0x1p-24 * std::abs(da[i])) << F::name << " " << fa[i] << " " << fb[i];
        ASSERT_NEAR(got_b[i], db[i], 8 * 0x1p-24 * std::abs(db[i])) << F::name << " " << fa[i] << " " << fb[i];
    }
}

TEST(Functions, BinaryFunctionsHaveTheirPartialDerivatives) {
    const std::vector<double> any = range(-3, 3, 17), positive = range(0.3, 3, 19);
    expect_partials(Add{}, any, positive);
    expect_partials(Sub{}, any, positive);
    expect_partials(Mul{}, any, positive);
    expect_partials(Div{}, any, positive);
    expect_partials(Pow{}, positive, any);
    expect_partials(Maximum{}, any, positive);
    expect_partials(Minimum{}, any, positive);
    EXPECT_EQ(Maximum{}.derivative_a(2.0, 2.0), 0.5);
    EXPECT_EQ(Minimum{}.derivative_b(2.0, 2.0), 0.5);
    EXPECT_EQ(Pow{}.derivative_b(0.0, 2.0), 0.0);
    EXPECT_EQ(Pow{}.derivative_a(0.0, 0.0), 0.0);
}

TEST(Functions, NanAndInfinityComeThrough) {
    const std::vector<double> points{kNan, kInfinity, -kInfinity, -1.0, 0.0};
    std::vector<float> x(points.begin(), points.end()), y(x.size());
    CpuStream stream{1};
    const auto check = [&](const auto& f) {
        map(stream, f, view_of(x), view_of(y));
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double truth = f(points[i]);
            EXPECT_EQ(std::isnan(y[i]), std::isnan(truth)) << f.name << " of " << x[i];
            if (std::isinf(truth)) {
                EXPECT_EQ(y[i], truth) << f.name << " of " << x[i];
            }
        }
    };
    check(Exp{}), check(Log{}), check(Log1p{}), check(Tanh{}), check(Sigmoid{}), check(Relu{}), check(Sqrt{});
    check(Erf{}), check(Abs{}), check(Clamp{}), check(Sign{}), check(Softplus{}), check(Silu{}), check(GeluErf{});
    check(GeluTanh{}), check(Sin{}), check(Reciprocal{}), check(Rsqrt{}), check(Floor{}), check(Expm1{}), check(Elu{});
    for (const double other : points) {
        EXPECT_TRUE(std::isnan(Maximum{}(kNan, other)) && std::isnan(Maximum{}(other, kNan)));
        EXPECT_TRUE(std::isnan(Minimum{}(kNan, other)) && std::isnan(Minimum{}(other, kNan)));
    }
}

}  // namespace
}  // namespace headroom::kernels
