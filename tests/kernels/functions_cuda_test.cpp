// Every pointwise function on a GPU, by each of its kernels, against the CPU's in f64 on the same numbers.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/tests/kernels/own_functions.hpp>
#include <headroom/tests/kernels/pointwise_cuda.hpp>
#include <headroom/tests/kernels/race_cases.hpp>

namespace headroom::kernels {
namespace {

using test::converted;
using test::expect_near;
using test::Layout;
using test::TestArray;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Device>
using Call = std::function<void(Device&, const std::vector<View>& in, float beta, const View& y)>;

/// A function, or a derivative, whose inputs come from [low, high], but for dy, which is the first of a derivative.
struct Function {
    const char* name;
    int inputs;
    double low, high, ulps, floor;
    bool gradient, integers, predicate;
    Call<CpuStream> cpu;
    Call<CudaStream> gpu;
};

template <class F>
Function value(const F& f, double low, double high, double ulps, double floor = 0) {
    const auto call = [f](auto& stream, const std::vector<View>& in, float, const View& y) {
        if constexpr (BinaryFunction<F>) {
            map(stream, f, in[0], in[1], y);
        } else {
            map(stream, f, in[0], y);
        }
    };
    constexpr int inputs = BinaryFunction<F> ? 2 : 1;
    return {F::name, inputs, low, high, ulps, floor, false, takes_integers<F>(), is_predicate<F>(), call, call};
}

/// The range is that of what the derivative is computed from.
template <class F>
Function gradient(const F& f, double low, double high, double ulps = 8, double floor = 6) {
    const auto call = [f](auto& stream, const std::vector<View>& in, float beta, const View& dx) {
        map_backward(stream, f, in[1], in[0], beta, dx);
    };
    return {F::name, 2, low, high, ulps, floor, true, false, false, call, call};
}

template <class F>
std::vector<Function> partials(const F& f, double low, double high, double ulps = 10, double floor = 0) {
    const auto of_a = [f](auto& stream, const std::vector<View>& in, float beta, const View& da) {
        map_backward_a(stream, f, in[1], in[2], in[0], beta, da);
    };
    const auto of_b = [f](auto& stream, const std::vector<View>& in, float beta, const View& db) {
        map_backward_b(stream, f, in[1], in[2], in[0], beta, db);
    };
    return {{F::name, 3, low, high, ulps, floor, true, false, false, of_a, of_a},
            {F::name, 3, low, high, ulps, floor, true, false, false, of_b, of_b}};
}

constexpr std::int64_t kCount = test::kRaces ? 75 : 1031;

class FunctionsCuda : public test::PointwiseCudaTest {
  protected:
    void expect_agreement(const Function& f) {
        SCOPED_TRACE(f.name);
        const Dtype halved = f.gradient ? Dtype::f16 : Dtype::f32;  // gradients in f32 of halves are common
        expect_agreement(f, Dtype::f32, Layout::contiguous, 0);
        expect_agreement(f, halved, Layout::gaps, f.gradient ? 1.0f : 0.0f);
        expect_agreement(f, Dtype::f64, Layout::contiguous, f.gradient ? 0.5f : 0.0f);
        if (f.integers) expect_agreement(f, Dtype::i64, Layout::contiguous, 0);
    }

  private:
    std::vector<TestArray> inputs_of(const Function& f, Dtype dtype, Layout layout) {
        std::vector<TestArray> inputs;
        const bool whole = f.predicate || dtype == Dtype::i64;  // so that there are equal ones, and zeros
        std::uniform_real_distribution<double> uniform(whole ? -3.4 : f.low, whole ? 3.4 : f.high), dy(-1.5, 1.5);
        for (int k = 0; k < f.inputs; ++k) {
            inputs.emplace_back(dtype, Shape{kCount}, layout);
            for (std::int64_t i = 0; i < kCount; ++i) {
                const double drawn = f.gradient && k == 0 ? dy(random_) : uniform(random_);
                inputs.back().set(i, whole ? std::nearbyint(drawn) : drawn);
                if (f.inputs - k == 1 && k > (f.gradient ? 1 : 0) && i % 5 == 0)
                    inputs[static_cast<std::size_t>(k)].set(i, inputs[static_cast<std::size_t>(k - 1)].get(i));
            }
        }
        return inputs;
    }

    void expect_agreement(const Function& f, Dtype dtype, Layout layout, float beta) {
        const std::vector<TestArray> inputs = inputs_of(f, dtype, layout);
        const Dtype computed_in = dtype == Dtype::f64 || dtype == Dtype::i64 ? dtype : Dtype::f32;
        TestArray y(f.predicate ? Dtype::boolean : computed_in, {kCount}, layout);
        if (beta != 0) y.fill(random_);
        const Dtype reference = dtype == Dtype::i64 ? Dtype::i64 : Dtype::f64;
        TestArray truth = beta == 0 ? TestArray(reference, {kCount}) : converted(y, reference);

        std::vector<TestArray> wide;
        std::vector<View> views;
        std::vector<const TestArray*> pointers;
        for (const TestArray& input : inputs) {
            wide.push_back(converted(input, reference));
            pointers.push_back(&input);
        }
        for (const TestArray& input : wide) views.push_back(input);
        f.cpu(cpu, views, beta, truth);
        on_gpu(pointers, y, [&](CudaStream& stream, const std::vector<View>& in, const View& result) {
            f.gpu(stream, in, beta, result);
        });
        const bool exact = dtype == Dtype::i64 || f.predicate;
        const double extra = beta == 0 ? 0 : 2;  // rounding of the sum
        expect_near(y, truth, computed_in, exact ? 0 : f.ulps + extra, exact ? 0 : f.floor + 4 * extra);
    }

    std::mt19937_64 random_{7};
};

TEST_F(FunctionsCuda, ArithmeticAgrees) {
    for (const Function& f :
         {value(Neg{}, -5, 5, 0), value(Affine{2.5, -0.75}, -5, 5, 2, 4), value(Abs{}, -5, 5, 0),
          value(Square{}, -5, 5, 1), value(Reciprocal{}, 0.1, 9, 1), value(Sqrt{}, 0.01, 9, 1),
          value(Rsqrt{}, 0.1, 9, 3), value(Clamp{-1, 2}, -5, 5, 0), value(Sign{}, -2, 2, 0), value(Floor{}, -5, 5, 0),
          value(Ceil{}, -5, 5, 0), value(LogicalNot{}, -1, 1, 0), value(IsFinite{}, -1, 1, 0)}) {
        expect_agreement(f);
    }
    for (const Function& f : {gradient(Neg{}, -5, 5), gradient(Affine{2.5, -0.75}, -5, 5), gradient(Abs{}, -5, 5),
                              gradient(Square{}, -5, 5), gradient(Reciprocal{}, 0.1, 9), gradient(Sqrt{}, 0.1, 3),
                              gradient(Rsqrt{}, 0.1, 9), gradient(Clamp{-1, 2}, -5, 5), gradient(Sign{}, -2, 2),
                              gradient(Floor{}, -5, 5), gradient(Ceil{}, -5, 5)}) {
        expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, TranscendentalsAgree) {
    for (const Function& f :
         {value(Exp{}, -80, 80, 4), value(Expm1{}, -10, 80, 4), value(Log{}, 0.01, 50, 4), value(Log1p{}, -0.9, 50, 6),
          value(Sin{}, -40, 40, 4), value(Cos{}, -40, 40, 4), value(Erf{}, -5, 5, 4)}) {
        expect_agreement(f);
    }
    for (const Function& f :
         {gradient(Exp{}, 0, 9), gradient(Expm1{}, -1, 9), gradient(Log{}, 0.1, 50), gradient(Log1p{}, -0.8, 50),
          gradient(Sin{}, -40, 40), gradient(Cos{}, -40, 40), gradient(Erf{}, -5, 5)}) {
        expect_agreement(f);
    }
    for (const double exponent : {0.0, 1.0, 3.0, -1.5, 0.3}) {
        expect_agreement(value(PowScalar{exponent}, 0.1, 7, 4));
        expect_agreement(gradient(PowScalar{exponent}, 0.1, 7));
    }
}

TEST_F(FunctionsCuda, ActivationsAgree) {
    for (const Function& f :
         {value(Relu{}, -5, 5, 0), value(LeakyRelu{0.2}, -5, 5, 3), value(Elu{1.5}, -20, 5, 6),
          value(Tanh{}, -12, 12, 6), value(Sigmoid{}, -80, 80, 6), value(Softplus{}, -80, 80, 6),
          value(Silu{}, -80, 80, 8), value(GeluErf{}, -12, 12, 8, 24), value(GeluTanh{}, -4, 20, 40)}) {
        expect_agreement(f);
    }
    for (const Function& f : {gradient(Relu{}, 0, 5), gradient(LeakyRelu{0.2}, -5, 5), gradient(Elu{1.5}, -20, 5),
                              gradient(Tanh{}, -1, 1, 8, 12), gradient(Sigmoid{}, 0, 1), gradient(Softplus{}, -20, 20),
                              gradient(Silu{}, -20, 20, 8, 24), gradient(GeluErf{}, -12, 12, 8, 24),
                              gradient(GeluTanh{}, -12, 12, 8, 60)}) {
        expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, FunctionsOfTwoArgumentsAgree) {
    for (const Function& f :
         {value(Add{}, -3, 3, 1), value(Sub{}, -3, 3, 1), value(Mul{}, -3, 3, 1), value(Div{}, 0.3, 3, 1),
          value(Pow{}, 0.3, 3, 2), value(Maximum{}, -3, 3, 0), value(Minimum{}, -3, 3, 0), value(Equal{}, -3, 3, 0),
          value(NotEqual{}, -3, 3, 0), value(Less{}, -3, 3, 0), value(LessEqual{}, -3, 3, 0),
          value(Greater{}, -3, 3, 0), value(GreaterEqual{}, -3, 3, 0), value(LogicalAnd{}, -3, 3, 0),
          value(LogicalOr{}, -3, 3, 0), value(SquaredDifference{}, -3, 3, 3), value(LogisticLoss{}, -3, 3, 6, 60)}) {
        expect_agreement(f);
    }
    for (const auto& both :
         {partials(Add{}, -3, 3), partials(Sub{}, -3, 3), partials(Mul{}, -3, 3), partials(Div{}, 0.3, 3),
          partials(Pow{}, 0.3, 3), partials(Maximum{}, -3, 3), partials(Minimum{}, -3, 3),
          partials(SquaredDifference{}, -3, 3), partials(LogisticLoss{}, -3, 3, 10, 30)}) {
        for (const Function& f : both) expect_agreement(f);
    }
}

TEST_F(FunctionsCuda, NanAndInfinityComeThrough) {
    const std::vector<double> points{kNan, kInfinity, -kInfinity, -1.0, 0.0, kNan, kInfinity, -kInfinity, 2.0};
    for (const Function& f :
         {value(Exp{}, 0, 0, 4), value(Log{}, 0, 0, 4), value(Log1p{}, 0, 0, 4), value(Tanh{}, 0, 0, 6),
          value(Sigmoid{}, 0, 0, 6), value(Relu{}, 0, 0, 0), value(Sqrt{}, 0, 0, 1), value(Erf{}, 0, 0, 4),
          value(Abs{}, 0, 0, 0), value(Clamp{}, 0, 0, 0), value(Sign{}, 0, 0, 0), value(Softplus{}, 0, 0, 6),
          value(Silu{}, 0, 0, 8), value(GeluErf{}, 0, 0, 8, 4), value(GeluTanh{}, 0, 0, 40),
          value(Reciprocal{}, 0, 0, 1), value(IsFinite{}, 0, 0, 0), value(Floor{}, 0, 0, 0)}) {
        SCOPED_TRACE(f.name);
        TestArray x(Dtype::f32, {9}), wide(Dtype::f64, {9}), truth(Dtype::f64, {9});
        TestArray y(f.predicate ? Dtype::boolean : Dtype::f32, {9});
        for (std::int64_t i = 0; i < 9; ++i) {
            x.set(i, points[static_cast<std::size_t>(i)]);
            wide.set(i, points[static_cast<std::size_t>(i)]);
        }
        f.cpu(cpu, {wide}, 0, truth);
        on_gpu({&x}, y, [&](CudaStream& stream, const std::vector<View>& in, const View& result) {
            f.gpu(stream, in, 0, result);
        });
        expect_near(y, truth, Dtype::f32, f.ulps, f.floor);
    }
}

TEST_F(FunctionsCuda, FunctionsOfTheUsersAgree) {
    expect_agreement(value(test::Cube{2.0}, -3, 3, 4));
    expect_agreement(gradient(test::Cube{2.0}, -3, 3));
    expect_agreement(value(test::Hypotenuse{}, 0.5, 3, 4));
    for (const Function& f : partials(test::Hypotenuse{}, 0.5, 3)) expect_agreement(f);
}

}  // namespace
}  // namespace headroom::kernels
