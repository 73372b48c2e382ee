#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr auto kUnary = [](auto&& visit) {
    for_each_function(UnaryFunctions{}, visit);
    for_each_function(Activations{}, visit);
};
constexpr auto kBinary = [](auto&& visit) {
    for_each_function(BinaryFunctions{}, visit);
    for_each_function(LossFunctions{}, visit);
};

std::vector<double> range(double low, double high, int count) {
    std::vector<double> result;
    for (int i = 0; i < count; ++i) result.push_back(low + (high - low) * (i + 0.37) / count);
    return result;
}

/// Arguments of a function, of which none is a multiple of a half.
template <class F>
std::vector<double> arguments(const F&, double largest = 100, int count = 4001) {
    return range(std::max(domain_of<F>().low, -largest), std::min(domain_of<F>().high, largest), count);
}

template <class T>
View view_of(std::vector<T>& values) {
    return contiguous_view(values.data(), dtype_of<T>, {static_cast<std::int64_t>(values.size())});
}

/// What f32 may be away from the true result.
double bound(double relative, double absolute, double truth) {
    return 0x1p-24 * (relative * std::max(std::abs(truth), 0x1p-126) + absolute);
}

/// Values in f32 through the kernel against f64.
template <class F>
void expect_values(const F& f) {
    const std::vector<double> points = arguments(f);
    std::vector<float> x(points.begin(), points.end()), y(x.size());
    CpuStream stream{1};
    map(stream, f, view_of(x), view_of(y));
    const Accuracy accuracy = accuracy_of<F>();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double truth = f(static_cast<double>(x[i]));
        ASSERT_NEAR(y[i], truth, bound(accuracy.relative, accuracy.absolute, truth)) << F::name << " of " << x[i];
    }
}

/// f64 derivative against central differences, then f32 through the kernel against f64.
template <class F>
void expect_derivative(const F& f) {
    const std::vector<double> points = arguments(f, 20);
    const auto saved = [&](double x) { return F::saves == Saves::output ? f(x) : x; };
    for (const double x : points) {
        const double h = 1e-6 * std::max(1.0, std::abs(x));
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
        ASSERT_NEAR(dx[i], truth, bound(kDerivativeAccuracy, accuracy_of<F>().derivative, truth))
            << F::name << " of " << inputs[i];
    }
}

TEST(Functions, OfOneArgumentAreAsExactAsTheySay) {
    kUnary([](const auto& f) { expect_values(f); });
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.5, 0.3}) expect_values(PowScalar{exponent});
}

TEST(Functions, OfOneArgumentHaveTheirDerivatives) {
    kUnary([](const auto& f) { expect_derivative(f); });
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.5, 0.3}) expect_derivative(PowScalar{exponent});
}

TEST(Functions, GeluOfSmallNumbersIsExactInProportionToThem) {
    for (double x = -12; x < 0; x += 0.01) {  // 1 + erf cancels
        ASSERT_NEAR(GeluErf{}(static_cast<float>(x)), GeluErf{}(static_cast<double>(static_cast<float>(x))),
                    2 * 0x1p-24 * -x);
    }
}

TEST(Functions, CornersAndStepsAreThoseOfTheirDefinition) {
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.0)), 1.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(-1.0)), 1.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.5)), 0.0);
    EXPECT_EQ(Relu{}.derivative(0.0), 0.0);
    EXPECT_EQ(Abs{}.derivative(0.0), 0.0);
    EXPECT_EQ(LeakyRelu{0.2}.derivative(0.0), 0.2);
    EXPECT_EQ(Sign{}(0.0), 0.0);
    EXPECT_EQ(Floor{}(-1.5), -2.0);
    EXPECT_EQ(Ceil{}(-1.5), -1.0);
    EXPECT_EQ(Maximum{}.derivative_a(2.0, 2.0), 0.5);
    EXPECT_EQ(Minimum{}.derivative_b(2.0, 2.0), 0.5);
    EXPECT_EQ(Pow{}.derivative_b(0.0, 2.0), 0.0);
    EXPECT_EQ(Pow{}.derivative_a(0.0, 0.0), 0.0);
}

/// Values and partial derivatives: in f64 against central differences, in f32 through the kernels against f64.
template <class F>
void expect_partials(const F& f) {
    std::vector<float> as, bs;
    for (const double a : arguments(f, 3, 17)) {
        for (const double b : arguments(f, 3, 19)) {
            const double h = 1e-6;
            const double size = std::max({1.0, std::abs(f(a, b)), std::abs(f.derivative_b(a, b))});
            ASSERT_NEAR(f.derivative_a(a, b), (f(a + h, b) - f(a - h, b)) / (2 * h), 1e-7 * size) << F::name;
            ASSERT_NEAR(f.derivative_b(a, b), (f(a, b + h) - f(a, b - h)) / (2 * h), 1e-7 * size) << F::name;
            as.push_back(static_cast<float>(a));
            bs.push_back(static_cast<float>(b));
        }
    }
    std::vector<float> dy(as.size(), 1.0f), y(as.size()), da(as.size()), db(as.size());
    CpuStream stream{1};
    map(stream, f, view_of(as), view_of(bs), view_of(y));
    map_backward_a(stream, f, view_of(as), view_of(bs), view_of(dy), 0.0f, view_of(da));
    map_backward_b(stream, f, view_of(as), view_of(bs), view_of(dy), 0.0f, view_of(db));
    const Accuracy accuracy = accuracy_of<F>();
    for (std::size_t i = 0; i < as.size(); ++i) {
        const double a = as[i], b = bs[i];
        const auto expect = [&](float result, double truth, double relative, double absolute) {
            ASSERT_NEAR(result, truth, bound(relative, absolute, truth)) << F::name << " " << a << " " << b;
        };
        expect(y[i], f(a, b), accuracy.relative, accuracy.absolute);
        expect(da[i], f.derivative_a(a, b), kDerivativeAccuracy, accuracy.derivative);
        expect(db[i], f.derivative_b(a, b), kDerivativeAccuracy, accuracy.derivative);
    }
}

TEST(Functions, OfTwoArgumentsAreAsExactAsTheySayWithTheirPartialDerivatives) {
    kBinary([](const auto& f) { expect_partials(f); });
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
    kUnary(check);
    check(IsFinite{}), check(LogicalNot{}), check(Clamp{-kInfinity, kInfinity});
    for (const double other : points) {
        EXPECT_TRUE(std::isnan(Maximum{}(kNan, other)) && std::isnan(Maximum{}(other, kNan)));
        EXPECT_TRUE(std::isnan(Minimum{}(kNan, other)) && std::isnan(Minimum{}(other, kNan)));
    }
}

}  // namespace
}  // namespace headroom::kernels
