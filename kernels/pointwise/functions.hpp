#pragma once
// A pointwise function is a small struct with a value and a derivative, shared by every backend, with its parameters as
// members. The struct is also its op's attributes, so it must be trivially copyable. Functions that mix elements
// (softmax, norms) have kernels of their own.
//
//     struct Cube {
//         static constexpr const char* name = "cube";
//         static constexpr Saves saves = Saves::input;
//         template <class T> constexpr T operator()(T x) const { return x * x * x; }
//         template <class T> constexpr T derivative(T x) const { return 3 * x * x; }
//     };
//
// T is float or double; if `integers` is declared true, also int64_t, which computes i32, i64, u8 and bool. To run a
// struct of your own, include `pointwise_loops.hpp` where it is used (for a GPU `pointwise_loops.cuh`, in a .cu
// source).
//
// The built-in functions are listed in a FunctionList at the end of their header. Code that iterates over all of them
// reads that list: compilation for CPUs and GPUs, the list of ops, tests. So these functions also declare `domain`,
// `accuracy`, and `sample()` if default parameters would test too little.
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace headroom::kernels {

/// The value that a derivative is computed from. A unary function's `derivative` gets this value as its argument
/// (anything for `nothing`); a binary function's derivatives get both inputs.
enum class Saves : std::uint8_t { nothing, input, output };

template <class F>
concept UnaryFunction = std::is_trivially_copyable_v<F> && requires(const F& f, float x) {
    { F::name } -> std::convertible_to<const char*>;
    { f(x) } -> std::convertible_to<float>;
};

template <class F>
concept DifferentiableUnary = UnaryFunction<F> && requires(const F& f, float x) {
    { F::saves } -> std::convertible_to<Saves>;
    { f.derivative(x) } -> std::convertible_to<float>;
};

template <class F>
concept BinaryFunction = std::is_trivially_copyable_v<F> && requires(const F& f, float a, float b) {
    { F::name } -> std::convertible_to<const char*>;
    { f(a, b) } -> std::convertible_to<float>;
};

template <class F>
concept DifferentiableBinary = BinaryFunction<F> && requires(const F& f, float a, float b) {
    { F::saves } -> std::convertible_to<Saves>;
    { f.derivative_a(a, b) } -> std::convertible_to<float>;
    { f.derivative_b(a, b) } -> std::convertible_to<float>;
};

/// True if `f` may be computed in int64_t.
template <class F>
constexpr bool takes_integers() {
    if constexpr (requires { F::integers; }) return F::integers;
    return false;
}

/// True if the result is a truth value: the output is then usually of dtype bool.
template <class F>
constexpr bool is_predicate() {
    if constexpr (BinaryFunction<F>) {
        return std::is_same_v<std::invoke_result_t<F, float, float>, bool>;
    } else {
        return std::is_same_v<std::invoke_result_t<F, float>, bool>;
    }
}

/// The range that tests draw arguments from: defined there, and finite in f32. The function may accept more.
struct Domain {
    double low = -5.0;
    double high = 5.0;
    bool kinked = false;  ///< has corners or steps, which finite differences must not cross
};

/// Error bound of f32 against the true result y of the same arguments, in units of 2^-24: relative |y| + absolute.
struct Accuracy {
    double relative = 1.0;    ///< 1: correctly rounded
    double absolute = 0.0;    ///< where terms cancel
    double derivative = 0.0;  ///< `absolute` of derivatives, whose `relative` is always kDerivativeAccuracy
};
inline constexpr double kDerivativeAccuracy = 10.0;

template <class F>
constexpr Domain domain_of() {
    if constexpr (requires { F::domain; }) return F::domain;
    return {};
}

template <class F>
constexpr Accuracy accuracy_of() {
    if constexpr (requires { F::accuracy; }) return F::accuracy;
    return {};
}

/// The function with the parameters that tests and samples of ops use.
template <class F>
constexpr F sample_of() {
    if constexpr (requires { F::sample(); }) return F::sample();
    return {};
}

template <class... Functions>
struct FunctionList {};

/// Calls `visit(sample_of<F>())` for each function of a list, in order.
template <class... Functions, class Visit>
void for_each_function(FunctionList<Functions...>, Visit&& visit) {
    (visit(sample_of<Functions>()), ...);
}

/// Work per element in units of an addition, for distribution over threads; about 8 for an exponential.
template <class F>
constexpr int cost_of() {
    if constexpr (requires { F::cost; }) return F::cost;
    return 1;
}

}  // namespace headroom::kernels
