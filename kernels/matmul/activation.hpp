#pragma once
// The activations that may follow a product: one formula for vectors on the CPU and for kernels. NaN stays NaN.
//
//     y = activated(Activation::gelu_tanh, x);   // float or double
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

template <class T>
constexpr T relu(T x) {
    return x < 0 ? 0 : x;
}

/// Hendrycks and Gimpel 2016, by tanh.
template <class T>
constexpr T gelu_tanh(T x) {
    const T inner = static_cast<T>(0.7978845608028654) * (x + static_cast<T>(0.044715) * x * x * x);
    return static_cast<T>(0.5) * x * (1 + math::tanh(inner));
}

template <class T>
constexpr T gelu_erf(T x) {
    return static_cast<T>(0.5) * x * (1 + math::erf(x * static_cast<T>(0.7071067811865476)));
}

template <class T>
constexpr T activated(Activation activation, T x) {
    switch (activation) {
        case Activation::none:
            break;
        case Activation::relu:
            return relu(x);
        case Activation::gelu_tanh:
            return gelu_tanh(x);
        case Activation::gelu_erf:
            return gelu_erf(x);
    }
    return x;
}

}  // namespace headroom::kernels
