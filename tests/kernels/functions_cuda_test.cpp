// Every pointwise function on a GPU, by each of its kernels, against the CPU's in f64 on the same numbers.
#include <headroom/kernels/pointwise/pointwise.hpp>

#include <algorithm>
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

/// A function, or a derivative, whose arguments come from its domain; dy is the first input of a derivative.
struct Function {
    const char* name;
    int inputs;
    Domain domain;
    double relative, absolute;
    bool gradient, integers, predicate;
    Call<CpuStream> cpu;
    Call<CudaStream> gpu;
    std::function<double(double)> saved;  ///< what a derivative is computed from, given the argument
};

template <class F>
Function value(const F& f, const Accuracy& accuracy = accuracy_of<F>()) {
    const auto call = [f](auto& stream, const std::vector<View>& in, float, const View& y) {
        if constexpr (BinaryFunction<F>) {
            map(stream, f, in[0], in[1], y);
        } else {
            map(stream, f, in[0], y);
        }
    };
    return {.name = F::name,
            .inputs = BinaryFunction<F> ? 2 : 1,
            .domain = domain_of<F>(),
            .relative = accuracy.relative,
            .absolute = accuracy.absolute,
            .gradient = false,
            .integers = takes_integers<F>(),
            .predicate = is_predicate<F>(),
            .cpu = call,
            .gpu = call,
            .saved = {}};
}

template <class F, class Call>
Function derivative(const F& f, int inputs, const Call& call) {
    return {.name = F::name,
            .inputs = inputs,
            .domain = {std::max(domain_of<F>().low, -9.0), std::min(domain_of<F>().high, 9.0)},  // for results in f16
            .relative = kDerivativeAccuracy,
            .absolute = accuracy_of<F>().derivative,
            .gradient = true,
            .integers = false,
            .predicate = false,
            .cpu = call,
            .gpu = call,
            .saved = [f](double x) {
                if constexpr (UnaryFunction<F>) return F::saves == Saves::output ? static_cast<double>(f(x)) : x;
                return x;
            }};
}

template <class F>
std::vector<Function> derivatives(const F& f) {
    if constexpr (DifferentiableUnary<F>) {
        return {derivative(f, 2, [f](auto& stream, const std::vector<View>& in, float beta, const View& dx) {
            map_backward(stream, f, in[1], in[0], beta, dx);
        })};
    } else {
        return {derivative(f, 3,
                           [f](auto& stream, const std::vector<View>& in, float beta, const View& da) {
                               map_backward_a(stream, f, in[1], in[2], in[0], beta, da);
                           }),
                derivative(f, 3, [f](auto& stream, const std::vector<View>& in, float beta, const View& db) {
                    map_backward_b(stream, f, in[1], in[2], in[0], beta, db);
                })};
    }
}

constexpr std::int64_t kCount = test::kRaces ? 75 : 1031;

class FunctionsCuda : public test::PointwiseCudaTest {
  protected:
    template <class F>
    void expect_function(const F& f, const Accuracy& accuracy = accuracy_of<F>()) {
        expect_agreement(value(f, accuracy));
        if constexpr (DifferentiableUnary<F> || DifferentiableBinary<F>) {
            for (const Function& one : derivatives(f)) expect_agreement(one);
        }
    }

    template <class List>
    void expect_functions(List list) {
        for_each_function(list, [&](const auto& f) { expect_function(f); });
    }

  private:
    void expect_agreement(const Function& f) {
        SCOPED_TRACE(f.name);
        const Dtype halved = f.gradient ? Dtype::f16 : Dtype::f32;  // gradients in f32 of halves are common
        expect_agreement(f, Dtype::f32, Layout::contiguous, 0);
        expect_agreement(f, halved, Layout::gaps, f.gradient ? 1.0f : 0.0f);
        expect_agreement(f, Dtype::f64, Layout::contiguous, f.gradient ? 0.5f : 0.0f);
        if (f.integers) expect_agreement(f, Dtype::i64, Layout::contiguous, 0);
    }

    std::vector<TestArray> inputs_of(const Function& f, Dtype dtype, Layout layout) {
        std::vector<TestArray> inputs;
        const bool whole = f.predicate || dtype == Dtype::i64;  // so that there are equal ones, and zeros
        std::uniform_real_distribution<double> uniform(whole ? -3.4 : f.domain.low, whole ? 3.4 : f.domain.high),
            dy(-1.5, 1.5);
        for (int k = 0; k < f.inputs; ++k) {
            inputs.emplace_back(dtype, Shape{kCount}, layout);
            for (std::int64_t i = 0; i < kCount; ++i) {
                const double drawn = f.gradient && k == 0 ? dy(random_) : uniform(random_);
                inputs.back().set(i, whole ? std::nearbyint(drawn) : f.gradient && k > 0 ? f.saved(drawn) : drawn);
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
        expect_near(y, truth, computed_in, exact ? 0 : f.relative + extra, exact ? 0 : f.absolute + 4 * extra);
    }

    std::mt19937_64 random_{7};
};

TEST_F(FunctionsCuda, FunctionsOfOneArgumentAgree) {
    expect_functions(UnaryFunctions{});
    expect_functions(UnaryPredicates{});
    for (const double exponent : {0.0, 1.0, 3.0, -1.5, 0.3}) expect_function(PowScalar{exponent});
}

TEST_F(FunctionsCuda, ActivationsAgree) { expect_functions(Activations{}); }

TEST_F(FunctionsCuda, FunctionsOfTwoArgumentsAgree) {
    expect_functions(BinaryFunctions{});
    expect_functions(Comparisons{});
    expect_functions(LossFunctions{});
}

TEST_F(FunctionsCuda, NanAndInfinityComeThrough) {
    const std::vector<double> points{kNan, kInfinity, -kInfinity, -1.0, 0.0, kNan, kInfinity, -kInfinity, 2.0};
    const auto check = [&](const auto& function) {
        const Function f = value(function);
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
        expect_near(y, truth, Dtype::f32, f.relative, f.absolute);
    };
    for_each_function(UnaryFunctions{}, check);
    for_each_function(UnaryPredicates{}, check);
    for_each_function(Activations{}, check);
}

TEST_F(FunctionsCuda, FunctionsOfTheUsersAgree) {
    expect_function(test::Cube{2.0}, {.relative = 4});
    expect_function(test::Hypotenuse{}, {.relative = 4});
}

}  // namespace
}  // namespace headroom::kernels
