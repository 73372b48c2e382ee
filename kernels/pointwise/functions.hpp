#pragma once
// A pointwise function is a small struct with a value and a derivative, shared by every backend, that carries its
// parameters as members. It is its own attributes in an op, so it must be trivially copyable. Not for functions that
// mix elements (softmax, norms): those are kernels of their own.
//
//     struct Cube {
//         static constexpr const char* name = "cube";
//         static constexpr Saves saves = Saves::input;
//         template <class T> constexpr T operator()(T x) const { return x * x * x; }
//         template <class T> constexpr T derivative(T x) const { return 3 * x * x; }
//     };
//
// T is float or double; where `integers` is declared true, also int64_t, in which i32, i64, u8 and bool are computed.
// To run a struct of your own, include `pointwise_loops.hpp` where it is used (for a GPU `pointwise_loops.cuh`, in a
// .cu source).
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace headroom::kernels {

/// The value from which a derivative is computed. A unary function's `derivative` gets exactly that as its argument
/// (anything for `nothing`); a binary function's get both inputs.
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

/// True if the result is a truth value: the output is then of dtype bool by custom.
template <class F>
constexpr bool is_predicate() {
    if constexpr (BinaryFunction<F>) {
        return std::is_same_v<std::invoke_result_t<F, float, float>, bool>;
    } else {
        return std::is_same_v<std::invoke_result_t<F, float>, bool>;
    }
}

/// Work per element in units of an addition, for sharing out among threads; about 8 for an exponential.
template <class F>
constexpr int cost_of() {
    if constexpr (requires { F::cost; }) return F::cost;
    return 1;
}

}  // namespace headroom::kernels
