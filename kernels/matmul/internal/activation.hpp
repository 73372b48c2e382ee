#pragma once
// The activations that may follow a product, with their derivatives: one formula for CPU vectors and GPU kernels. The
// functions are those of kernels/pointwise. NaN stays NaN (ReLU's derivative there is 0).
//
//     y = activated(Activation::gelu_tanh, x);   // float or double
//     with_function(activation, [&](auto f) { map(stream, f, x, y); });
//     const auto [value, slope] = value_and_slope(GeluTanh{}, x);
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/pointwise/activations.hpp>

namespace headroom::kernels {

/// Activation::none.
struct Identity {
    static constexpr const char* name = "identity";
    static constexpr Saves saves = Saves::nothing;
    template <class T>
    constexpr T operator()(T x) const {
        return x;
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(1);
    }
};

/// Calls `work` with the activation's function.
template <class Work>
constexpr decltype(auto) with_function(Activation activation, Work&& work) {
    switch (activation) {
        case Activation::relu:
            return work(Relu{});
        case Activation::gelu_tanh:
            return work(GeluTanh{});
        case Activation::gelu_erf:
            return work(GeluErf{});
        case Activation::none:
            break;
    }
    return work(Identity{});
}

template <class T>
constexpr T activated(Activation activation, T x) {
    return with_function(activation, [x](auto f) { return f(x); });
}

template <class T>
struct ValueAndSlope {
    T value, slope;
};

/// f(x) and f'(x).
template <class F, class T>
constexpr ValueAndSlope<T> value_and_slope(F f, T x) {
    const T value = f(x);
    return {value, f.derivative(F::saves == Saves::output ? value : x)};
}

/// Computes both with one exponential.
template <class T>
constexpr ValueAndSlope<T> value_and_slope(GeluTanh, T x) {
    const T square = x * x;
    const T inner = x * (T(GeluTanh::kLinear) + T(GeluTanh::kCubic) * square);
    const T s = math::quotient(T(1), T(1) + math::exp_above(-inner));
    return {x * s, s + s * (T(1) - s) * x * (T(GeluTanh::kLinear) + T(3 * GeluTanh::kCubic) * square)};
}

/// Computes both with one error function.
template <class T>
constexpr ValueAndSlope<T> value_and_slope(GeluErf, T x) {
    const T distribution = T(0.5) + T(0.5) * math::erf(x * T(0.70710678118654752));
    return {x * distribution, distribution + x * T(0.39894228040143268) * math::exp(T(-0.5) * x * x)};
}

}  // namespace headroom::kernels
