// Every pointwise function, by each of its kernels, against itself in f64; derivatives against differences.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <cmath>
#include <limits>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/own_functions.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using namespace test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A function, or a derivative, whose inputs come from [low, high], but for dy, which is the first of a derivative. Its
/// error is at most `ulps` of the result and `floor` of 1, in units of 2^-24 for f32.
struct Function {
    std::string name;
    int inputs;
    double low, high, ulps, floor;
    bool gradient, integers, predicate;
    std::function<double(const double*)> exact;
    std::function<double(const double*)> exact_integer;
    std::function<void(Device&, const Views& in, float beta, const View& y)> call;
};

template <class F>
Function value(const F& f, double low, double high, double ulps, double floor = 0) {
    constexpr int inputs = BinaryFunction<F> ? 2 : 1;
    Function result{F::name, inputs, low, high, ulps, floor, false, takes_integers<F>(), is_predicate<F>(), {}, {}, {}};
    const auto of = [f]<class T>(T a, [[maybe_unused]] T b) {
        if constexpr (BinaryFunction<F>) {
            return static_cast<double>(f(a, b));
        } else {
            return static_cast<double>(f(a));
        }
    };
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

/// The range is that of what the derivative is computed from.
template <class F>
Function gradient(const F& f, double low, double high, double ulps = 8, double floor = 6) {
    const std::string name = std::string("d_") + F::name;
    return {name,
            2,
            low,
            high,
            ulps,
            floor,
            true,
            false,
            false,
            [f](const double* in) { return static_cast<double>(f.derivative(in[1])) * in[0]; },
            {},
            [f](Device& device, const Views& in, float beta, const View& dx) {
                device.run([&](auto& stream) { map_backward(stream, f, in[1], in[0], beta, dx); });
            }};
}

template <class F>
std::vector<Function> partials(const F& f, double low, double high, double ulps = 10, double floor = 0) {
    const std::string name = std::string("_") + F::name;
    return {{"da" + name,
             3,
             low,
             high,
             ulps,
             floor,
             true,
             false,
             false,
             [f](const double* in) { return static_cast<double>(f.derivative_a(in[1], in[2])) * in[0]; },
             {},
             [f](Device& device, const Views& in, float beta, const View& da) {
                 device.run([&](auto& stream) { map_backward_a(stream, f, in[1], in[2], in[0], beta, da); });
             }},
            {"db" + name,
             3,
             low,
             high,
             ulps,
             floor,
             true,
             false,
             false,
             [f](const double* in) { return static_cast<double>(f.derivative_b(in[1], in[2])) * in[0]; },
             {},
             [f](Device& device, const Views& in, float beta, const View& db) {
                 device.run([&](auto& stream) { map_backward_b(stream, f, in[1], in[2], in[0], beta, db); });
             }}};
}

std::vector<Function> functions() {
    std::vector<Function> result{
        value(Neg{}, -5, 5, 0), value(Affine{2.5, -0.75}, -5, 5, 2, 4), value(Abs{}, -5, 5, 0),
        value(Square{}, -5, 5, 1), value(Reciprocal{}, 0.1, 9, 1), value(Sqrt{}, 0.01, 9, 1), value(Rsqrt{}, 0.1, 9, 3),
        value(Clamp{-1, 2}, -5, 5, 0), value(Sign{}, -2, 2, 0), value(Floor{}, -5, 5, 0), value(Ceil{}, -5, 5, 0),
        value(LogicalNot{}, -1, 1, 0), value(IsFinite{}, -1, 1, 0), value(Exp{}, -80, 80, 4),
        value(Expm1{}, -10, 80, 4), value(Log{}, 0.01, 50, 4), value(Log1p{}, -0.9, 50, 6), value(Sin{}, -40, 40, 4),
        value(Cos{}, -40, 40, 4), value(Erf{}, -5, 5, 4), value(Relu{}, -5, 5, 0), value(LeakyRelu{0.2}, -5, 5, 3),
        value(Elu{1.5}, -20, 5, 6), value(Tanh{}, -12, 12, 6), value(Sigmoid{}, -80, 80, 6),
        value(Softplus{}, -80, 80, 6), value(Silu{}, -80, 80, 8),
        // 1 + erf cancels; the argument of the exponential reaches 10 where the value still counts.
        value(GeluErf{}, -12, 12, 8, 24), value(GeluTanh{}, -4, 20, 40), gradient(Neg{}, -5, 5),
        gradient(Affine{2.5, -0.75}, -5, 5), gradient(Abs{}, -5, 5), gradient(Square{}, -5, 5),
        gradient(Reciprocal{}, 0.1, 9), gradient(Sqrt{}, 0.1, 3), gradient(Rsqrt{}, 0.1, 9),
        gradient(Clamp{-1, 2}, -5, 5), gradient(Sign{}, -2, 2), gradient(Floor{}, -5, 5), gradient(Ceil{}, -5, 5),
        gradient(Exp{}, 0, 9), gradient(Expm1{}, -1, 9), gradient(Log{}, 0.1, 50), gradient(Log1p{}, -0.8, 50),
        gradient(Sin{}, -40, 40), gradient(Cos{}, -40, 40), gradient(Erf{}, -5, 5), gradient(Relu{}, 0, 5),
        gradient(LeakyRelu{0.2}, -5, 5), gradient(Elu{1.5}, -20, 5), gradient(Tanh{}, -1, 1, 8, 12),
        gradient(Sigmoid{}, 0, 1), gradient(Softplus{}, -20, 20), gradient(Silu{}, -20, 20, 8, 24),
        gradient(GeluErf{}, -12, 12, 8, 24), gradient(GeluTanh{}, -12, 12, 8, 60), value(Add{}, -3, 3, 1),
        value(Sub{}, -3, 3, 1), value(Mul{}, -3, 3, 1), value(Div{}, 0.3, 3, 1), value(Pow{}, 0.3, 3, 2),
        value(Maximum{}, -3, 3, 0), value(Minimum{}, -3, 3, 0), value(Equal{}, -3, 3, 0), value(NotEqual{}, -3, 3, 0),
        value(Less{}, -3, 3, 0), value(LessEqual{}, -3, 3, 0), value(Greater{}, -3, 3, 0),
        value(GreaterEqual{}, -3, 3, 0), value(LogicalAnd{}, -3, 3, 0), value(LogicalOr{}, -3, 3, 0),
        value(SquaredDifference{}, -3, 3, 3), value(LogisticLoss{}, -3, 3, 6, 60), value(Cube{2.0}, -3, 3, 4),
        gradient(Cube{2.0}, -3, 3), value(Hypotenuse{}, 0.5, 3, 4)};
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.5, 0.3}) {
        for (Function f : {value(PowScalar{exponent}, 0.1, 7, 4), gradient(PowScalar{exponent}, 0.1, 7)}) {
            f.name += "_" + std::to_string(exponent);
            result.push_back(f);
        }
    }
    for (const auto& both : {partials(Add{}, -3, 3), partials(Sub{}, -3, 3), partials(Mul{}, -3, 3),
                             partials(Div{}, 0.3, 3), partials(Pow{}, 0.3, 3), partials(Maximum{}, -3, 3),
                             partials(Minimum{}, -3, 3), partials(SquaredDifference{}, -3, 3),
                             partials(LogisticLoss{}, -3, 3, 10, 30), partials(Hypotenuse{}, 0.5, 3)}) {
        result.insert(result.end(), both.begin(), both.end());
    }
    return result;
}

/// `points`: instead of numbers from the function's range.
Trial function_trial(const Variant& v, Random& random, const Function& f, const std::vector<double>& points) {
    Trial trial;
    const std::int64_t count = points.empty() ? (kRaces ? 75 : 1031) : static_cast<std::int64_t>(points.size());
    const bool whole = f.predicate || v.dtype == Dtype::i64;  // so that there are equal ones, and zeros
    std::uniform_real_distribution<double> uniform(whole ? -3.4 : f.low, whole ? 3.4 : f.high), dy(-1.5, 1.5);
    for (int k = 0; k < f.inputs; ++k) {
        trial.input(v, {count}, [&](TestArray& x) {
            for (std::int64_t i = 0; i < count; ++i) {
                const double drawn = f.gradient && k == 0 ? dy(random) : uniform(random);
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
            const double error = unit * ((f.ulps + extra) * std::max(std::abs(sum), 0x1p-126) + f.floor + 4 * extra);
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

std::vector<double> range(double low, double high, int count) {
    std::vector<double> result;
    for (int i = 0; i < count; ++i) result.push_back(low + (high - low) * (i + 0.37) / count);
    return result;
}

template <class F>
void expect_derivative(const F& f, double low, double high) {
    for (const double x : range(low, high, 4001)) {
        const double h = 1e-6 * std::max(1.0, std::abs(x)), difference = (f(x + h) - f(x - h)) / (2 * h);
        const double derivative = f.derivative(F::saves == Saves::output ? f(x) : x);
        ASSERT_NEAR(derivative, difference, 1e-7 * std::max({1.0, std::abs(difference), std::abs(f(x))}))
            << F::name << " at " << x;
    }
}

template <class F>
void expect_partials(const F& f, double low_a, double low_b) {
    for (const double a : range(low_a, 3, 17)) {
        for (const double b : range(low_b, 3, 19)) {
            const double h = 1e-6, size = std::max({1.0, std::abs(f(a, b)), std::abs(f.derivative_b(a, b))});
            ASSERT_NEAR(f.derivative_a(a, b), (f(a + h, b) - f(a - h, b)) / (2 * h), 1e-7 * size) << F::name;
            ASSERT_NEAR(f.derivative_b(a, b), (f(a, b + h) - f(a, b - h)) / (2 * h), 1e-7 * size) << F::name;
        }
    }
}

TEST(Functions, DerivativesAreThoseOfTheFunctions) {
    expect_derivative(Neg{}, -5, 5), expect_derivative(Affine{2.5, -0.75}, -5, 5), expect_derivative(Abs{}, -5, 5);
    expect_derivative(Square{}, -5, 5), expect_derivative(Reciprocal{}, 0.1, 9), expect_derivative(Sqrt{}, 0.01, 9);
    expect_derivative(Rsqrt{}, 0.1, 9), expect_derivative(PowScalar{3.0}, -4, -0.1);
    for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.5, 0.3}) expect_derivative(PowScalar{exponent}, 0.1, 7);
    expect_derivative(Exp{}, -5, 5), expect_derivative(Expm1{}, -5, 5), expect_derivative(Log{}, 0.1, 50);
    expect_derivative(Log1p{}, -0.8, 50), expect_derivative(Sin{}, -40, 40), expect_derivative(Cos{}, -40, 40);
    expect_derivative(Erf{}, -5, 5), expect_derivative(Relu{}, -5, 5), expect_derivative(LeakyRelu{0.2}, -5, 5);
    expect_derivative(Elu{1.5}, -20, 5), expect_derivative(Tanh{}, -9, 9), expect_derivative(Sigmoid{}, -20, 20);
    expect_derivative(Softplus{}, -20, 20), expect_derivative(Silu{}, -20, 20), expect_derivative(GeluTanh{}, -12, 12);
    expect_derivative(GeluErf{}, -12, 12), expect_derivative(Clamp{-1, 2}, -5, 5);
    expect_partials(Add{}, -3, 0.3), expect_partials(Sub{}, -3, 0.3), expect_partials(Mul{}, -3, 0.3);
    expect_partials(Div{}, -3, 0.3), expect_partials(Pow{}, 0.3, -3), expect_partials(Maximum{}, -3, 0.3);
    expect_partials(Minimum{}, -3, 0.3);
}

TEST(Functions, HaveTheirConventionsWhereTheyAreNotSmooth) {
    EXPECT_EQ((Clamp{-1, 2}.derivative(2.0)), 1.0);
    EXPECT_EQ((Clamp{-1, 2}.derivative(-1.0)), 1.0);
    EXPECT_EQ(Relu{}.derivative(0.0), 0.0);
    EXPECT_EQ(Abs{}.derivative(0.0), 0.0);
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

}  // namespace
}  // namespace headroom::kernels
