// Every pointwise function, by each of its kernels, against itself in f64; derivatives against differences.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/own_functions.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace functions_devices_test {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A function, or a derivative, whose arguments come from its domain; dy is the first input of a derivative. Its error
/// is at most `relative` of the result and `absolute` of 1, in units of 2^-24 for f32.
struct Function {
    std::string name;
    int inputs = 1;
    Domain domain;
    double relative = 0, absolute = 0;
    bool gradient = false, integers = false, predicate = false;
    std::function<double(double)> saved = {};  ///< what a derivative is computed from, given the argument
    std::function<double(const double*)> exact = {};
    std::function<double(const double*)> exact_integer = {};
    std::function<void(Device&, const Views& in, float beta, const View& y)> call = {};
};

template <class F>
Function value(const F& f, const Accuracy& accuracy) {
    constexpr int inputs = BinaryFunction<F> ? 2 : 1;
    const auto of = [f]<class T>(T a, [[maybe_unused]] T b) {
        if constexpr (BinaryFunction<F>) {
            return static_cast<double>(f(a, b));
        } else {
            return static_cast<double>(f(a));
        }
    };
    Function result{.name = F::name,
                    .inputs = inputs,
                    .domain = domain_of<F>(),
                    .relative = accuracy.relative,
                    .absolute = accuracy.absolute,
                    .integers = takes_integers<F>(),
                    .predicate = is_predicate<F>()};
    result.exact = [of](const double* in) { return of(in[0], in[inputs - 1]); };
    if constexpr (takes_integers<F>()) {
        result.exact_integer = [of](const double* in) {
            return of(static_cast<std::int64_t>(in[0]), static_cast<std::int64_t>(in[inputs - 1]));
        };
    }
    result.call = [f](Device& device, const Views& in, float, const View& y) {
        device.run([&](auto& stream) {
            if constexpr (BinaryFunction<F>) {
                map(stream, f, in[0], in[1], y);
            } else {
                map(stream, f, in[0], y);
            }
        });
    };
    return result;
}

template <class F>
Function derivative(const std::string& name, int inputs) {
    return {.name = name + F::name,
            .inputs = inputs,
            .domain = {std::max(domain_of<F>().low, -9.0), std::min(domain_of<F>().high, 9.0)},  // for results in f16
            .relative = kDerivativeAccuracy,
            .absolute = accuracy_of<F>().derivative,
            .gradient = true};
}

/// What there is of them.
template <class F>
std::vector<Function> derivatives(const F& f) {
    if constexpr (DifferentiableUnary<F>) {
        Function d = derivative<F>("d_", 2);
        d.saved = [f](double x) { return F::saves == Saves::output ? static_cast<double>(f(x)) : x; };
        d.exact = [f](const double* in) { return static_cast<double>(f.derivative(in[1])) * in[0]; };
        d.call = [f](Device& device, const Views& in, float beta, const View& dx) {
            device.run([&](auto& stream) { map_backward(stream, f, in[1], in[0], beta, dx); });
        };
        return {d};
    } else if constexpr (DifferentiableBinary<F>) {
        Function a = derivative<F>("da_", 3), b = derivative<F>("db_", 3);
        a.exact = [f](const double* in) { return static_cast<double>(f.derivative_a(in[1], in[2])) * in[0]; };
        a.call = [f](Device& device, const Views& in, float beta, const View& da) {
            device.run([&](auto& stream) { map_backward_a(stream, f, in[1], in[2], in[0], beta, da); });
        };
        b.exact = [f](const double* in) { return static_cast<double>(f.derivative_b(in[1], in[2])) * in[0]; };
        b.call = [f](Device& device, const Views& in, float beta, const View& db) {
            device.run([&](auto& stream) { map_backward_b(stream, f, in[1], in[2], in[0], beta, db); });
        };
        return {a, b};
    } else {
        return {};
    }
}

/// Calls `visit` for every differentiable function of one argument that Headroom brings.
template <class Visit>
void for_each_unary(Visit&& visit) {
    for_each_function(UnaryFunctions{}, visit);
    for_each_function(Activations{}, visit);
    for (const double exponent : {0.0, 1.0, 2.0, -1.5, 0.3}) visit(PowScalar{exponent});
}

/// And of two.
template <class Visit>
void for_each_binary(Visit&& visit) {
    for_each_function(BinaryFunctions{}, visit);
    for_each_function(LossFunctions{}, visit);
    visit(LogSumExpTerm{}), visit(ProductFactor{});
}

std::vector<Function> functions() {
    std::vector<Function> result;
    const auto add = [&]<class F>(const F& f, const Accuracy& accuracy) {
        std::string suffix;
        if constexpr (std::is_same_v<F, PowScalar>) suffix = "_" + std::to_string(f.exponent);
        for (Function one : derivatives(f)) {
            one.name += suffix;
            result.push_back(one);
        }
        result.push_back(value(f, accuracy));
        result.back().name += suffix;
    };
    const auto add_own = [&]<class F>(const F& f) { add(f, accuracy_of<F>()); };
    for_each_unary(add_own);
    for_each_function(UnaryPredicates{}, add_own);
    for_each_binary(add_own);
    for_each_function(Comparisons{}, add_own);
    add_own(QuotientOrZero{}), add_own(LogSumExpResult{});
    add(Cube{2.0}, {.relative = 4});
    add(Hypotenuse{}, {.relative = 4});
    return result;
}

/// `points`: instead of numbers from the function's range.
Trial function_trial(const Variant& v, Random& random, const Function& f, const std::vector<double>& points) {
    Trial trial;
    const std::int64_t count = points.empty() ? (kRaces ? 75 : 1031) : static_cast<std::int64_t>(points.size());
    const bool whole = f.predicate || v.dtype == Dtype::i64;  // so that there are equal ones, and zeros
    std::uniform_real_distribution<double> uniform(whole ? -3.4 : f.domain.low, whole ? 3.4 : f.domain.high);
    std::uniform_real_distribution<double> dy(-1.5, 1.5);
    for (int k = 0; k < f.inputs; ++k) {
        trial.input(v, {count}, [&](TestArray& x) {
            for (std::int64_t i = 0; i < count; ++i) {
                double drawn = f.gradient && k == 0 ? dy(random) : uniform(random);
                if (f.saved && k > 0) drawn = f.saved(drawn);
                x.set(i, !points.empty() ? points[static_cast<std::size_t>(i)] : whole ? std::nearbyint(drawn) : drawn);
                // Ties of two arguments.
                if (k > (f.gradient ? 1 : 0) && i % 5 == 0) x.set(i, trial.in[static_cast<std::size_t>(k - 1)].get(i));
            }
        });
    }
    const Dtype computed_in = v.dtype == Dtype::f64 || v.dtype == Dtype::i64 ? v.dtype : Dtype::f32;
    const std::vector<float> betas = f.gradient ? std::vector{0.0f, 1.0f, 0.5f} : std::vector{0.0f};
    for (const float beta : betas) {
        Output& y = trial.output(f.predicate ? Dtype::boolean : computed_in, {count}, v.out,
                                 beta == 0 ? Fill() : normal(random));
        y.rounds = false;
        const double unit = epsilon(computed_in) / 2, extra = beta == 0 ? 0 : 2;  // rounding of the sum
        for (std::int64_t i = 0; i < count; ++i) {
            std::vector<double> in;
            for (const TestArray& x : trial.in) in.push_back(x.get(i));
            const double truth = (v.dtype == Dtype::i64 ? f.exact_integer : f.exact)(in.data());
            const double sum = truth + (beta == 0 ? 0 : beta * y.before());
            const double error =
                unit * ((f.relative + extra) * std::max(std::abs(sum), 0x1p-126) + f.absolute + 4 * extra);
            y.expect(sum, f.predicate || v.dtype == Dtype::i64 ? 0 : error);
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (std::size_t i = 0; i < out.size(); ++i) f.call(device, in, betas[i], out[i]);
    };
    return trial;
}

Cases cases() {
    static constexpr Dtype kValues[] = {Dtype::f32, Dtype::f64}, kInteger[] = {Dtype::i64};
    static constexpr Dtype kGradients[] = {Dtype::f32, Dtype::f16, Dtype::f64};  // in f32 of halves are common
    static constexpr Layouts kTwo[] = {{Layout::contiguous, Layout::contiguous}, {Layout::gaps, Layout::gaps}};
    const std::vector<double> points{kNan, kInfinity, -kInfinity, -1.0, 0.0, kNan, kInfinity, -kInfinity, 2.0};
    Cases result;
    for (const Function& f : functions()) {
        const auto dtypes = f.gradient ? std::span<const Dtype>(kGradients) : std::span<const Dtype>(kValues);
        result.add(f.name, function_trial, f, std::vector<double>()).only(dtypes, kTwo);
        if (f.integers) result.add(f.name, function_trial, f, std::vector<double>()).only(kInteger);
        if (f.inputs == 1 || f.predicate) result.add(f.name + "/not_finite", function_trial, f, points).only(kF32);
    }
    return result;
}

const bool rows = add_rows("FunctionRows", cases());

/// Arguments of a function, of which none is a multiple of a half.
template <class F>
std::vector<double> arguments(const F&, double largest, int count) {
    const double low = std::max(domain_of<F>().low, -largest), high = std::min(domain_of<F>().high, largest);
    std::vector<double> result;
    for (int i = 0; i < count; ++i) result.push_back(low + (high - low) * (i + 0.37) / count);
    return result;
}

TEST(Functions, DerivativesAreThoseOfTheFunctions) {
    for_each_unary([]<class F>(const F& f) {
        for (const double x : arguments(f, 20, 4001)) {
            const double h = 1e-6 * std::max(1.0, std::abs(x)), difference = (f(x + h) - f(x - h)) / (2 * h);
            const double found = f.derivative(F::saves == Saves::output ? f(x) : x);
            ASSERT_NEAR(found, difference, 1e-7 * std::max({1.0, std::abs(difference), std::abs(f(x))}))
                << F::name << " at " << x;
        }
    });
    for_each_binary([]<class F>(const F& f) {
        for (const double a : arguments(f, 3, 17)) {
            for (const double b : arguments(f, 3, 19)) {
                const double h = 1e-6, size = std::max({1.0, std::abs(f(a, b)), std::abs(f.derivative_b(a, b))});
                ASSERT_NEAR(f.derivative_a(a, b), (f(a + h, b) - f(a - h, b)) / (2 * h), 1e-7 * size) << F::name;
                ASSERT_NEAR(f.derivative_b(a, b), (f(a, b + h) - f(a, b - h)) / (2 * h), 1e-7 * size) << F::name;
            }
        }
    });
}

TEST(Functions, HaveTheirConventionsWhereTheyAreNotSmooth) {
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.0)), 1.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(-1.0)), 1.0);
    EXPECT_EQ(Relu{}.derivative(0.0), 0.0);
    EXPECT_EQ(Abs{}.derivative(0.0), 0.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.5)), 0.0);
    EXPECT_EQ(LeakyRelu{0.2}.derivative(0.0), 0.2);
    EXPECT_EQ(Sign{}(0.0), 0.0);
    EXPECT_EQ(Floor{}(-1.5), -2.0);
    EXPECT_EQ(Ceil{}(-1.5), -1.0);
    EXPECT_EQ(Round{}(2.5), 2.0);
    EXPECT_EQ(Round{}(-1.5), -2.0);
    EXPECT_EQ(QuotientOrZero{}(1.0, 0.0), 0.0);
    EXPECT_EQ(ProductFactor{}.derivative_a(0.0, 2.0), 0.0);
    EXPECT_EQ(Maximum{}.derivative_a(2.0, 2.0), 0.5);
    EXPECT_EQ(Minimum{}.derivative_b(2.0, 2.0), 0.5);
    EXPECT_EQ(Pow{}.derivative_b(0.0, 2.0), 0.0);
    EXPECT_EQ(Pow{}.derivative_a(0.0, 0.0), 0.0);
    for (const double other : {kNan, kInfinity, -kInfinity, -1.0, 0.0}) {
        EXPECT_TRUE(std::isnan(Maximum{}(kNan, other)) && std::isnan(Maximum{}(other, kNan)));
        EXPECT_TRUE(std::isnan(Minimum{}(kNan, other)) && std::isnan(Minimum{}(other, kNan)));
    }
    for (double x = -12; x < 0; x += 0.01) {  // 1 + erf cancels: exact only in proportion to x
        ASSERT_NEAR(GeluErf{}(static_cast<float>(x)), GeluErf{}(static_cast<double>(static_cast<float>(x))),
                    2 * 0x1p-24 * -x);
    }
}

}  // namespace functions_devices_test
}  // namespace headroom::kernels
