#pragma once
// Activation functions, as pointwise functions (see `functions.hpp`).
//
//     kernels::map(stream, kernels::GeluTanh{}, x, y);
//     kernels::map_backward(stream, kernels::GeluTanh{}, x, dy, 0.0f, dx);
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom::kernels {

struct Relu {
    static constexpr const char* name = "relu";
    static constexpr Saves saves = Saves::output;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return x < T(0) ? T(0) : x;
    }
    template <class T>
    constexpr T derivative(T y) const {
        return y > T(0) ? T(1) : T(0);
    }
};

/// x above 0, slope x below. The derivative at 0 is the slope.
struct LeakyRelu {
    static constexpr const char* name = "leaky_relu";
    static constexpr Saves saves = Saves::input;
    static constexpr Domain domain{.kinked = true};
    static constexpr Accuracy accuracy{.relative = 3};
    double slope = 0.01;
    static constexpr LeakyRelu sample() { return {0.2}; }
    template <class T>
    constexpr T operator()(T x) const {
        return x > T(0) ? x : T(slope) * x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return x > T(0) ? T(1) : T(slope);
    }
};

/// x above 0, alpha (e^x - 1) below (Clevert, Unterthiner and Hochreiter 2016).
struct Elu {
    static constexpr const char* name = "elu";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -20, .high = 5};
    static constexpr Accuracy accuracy{.relative = 6};
    double alpha = 1.0;
    static constexpr Elu sample() { return {1.5}; }
    template <class T>
    constexpr T operator()(T x) const {
        return x > T(0) ? x : T(alpha) * math::expm1(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return x > T(0) ? T(1) : T(alpha) * math::exp(x);
    }
};

struct Tanh {
    static constexpr const char* name = "tanh";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -12, .high = 12};
    static constexpr Accuracy accuracy{.relative = 6, .derivative = 12};
    template <class T>
    constexpr T operator()(T x) const {
        return math::tanh(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return T(1) - y * y;
    }
};

/// 1 / (1 + e^-x)
struct Sigmoid {
    static constexpr const char* name = "sigmoid";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -80, .high = 80};
    static constexpr Accuracy accuracy{.relative = 6};
    template <class T>
    constexpr T operator()(T x) const {
        return math::sigmoid(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return y * (T(1) - y);
    }
};

/// log(1 + e^x)
struct Softplus {
    static constexpr const char* name = "softplus";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 16;
    static constexpr Domain domain{.low = -80, .high = 80};
    static constexpr Accuracy accuracy{.relative = 6};
    template <class T>
    constexpr T operator()(T x) const {
        return math::softplus(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return math::sigmoid(x);
    }
};

/// x sigmoid(x), also called swish (Elfwing, Uchibe and Doya 2018).
struct Silu {
    static constexpr const char* name = "silu";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -80, .high = 80};
    static constexpr Accuracy accuracy{.relative = 8, .derivative = 24};
    template <class T>
    constexpr T operator()(T x) const {
        return math::quotient(x, T(1) + math::exp_above(-x));
    }
    template <class T>
    constexpr T derivative(T x) const {
        const T s = math::quotient(T(1), T(1) + math::exp_above(-x));
        return s * (T(1) + x * (T(1) - s));
    }
};

/// x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016).
struct GeluErf {
    static constexpr const char* name = "gelu_erf";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -12, .high = 12};
    static constexpr Accuracy accuracy{.relative = 8, .absolute = 24, .derivative = 24};
    template <class T>
    constexpr T operator()(T x) const {
        return T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752)));
    }
    template <class T>
    constexpr T derivative(T x) const {
        const T distribution = T(0.5) + T(0.5) * math::erf(x * T(0.70710678118654752));
        return distribution + x * T(0.39894228040143268) * math::exp(T(-0.5) * x * x);
    }
};

/// GELU with tanh instead of the error function, as in GPT-2: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
/// Computed as the equal x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), with one exponential and one division.
struct GeluTanh {
    static constexpr const char* name = "gelu_tanh";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr double kLinear = 1.5957691216057308;  // 2 sqrt(2 / pi)
    static constexpr double kCubic = kLinear * 0.044715;
    static constexpr Domain domain{.low = -12, .high = 20};
    static constexpr Accuracy accuracy{.relative = 40, .absolute = 1, .derivative = 60};
    template <class T>
    constexpr T operator()(T x) const {
        const T inner = x * (T(kLinear) + T(kCubic) * x * x);
        return math::quotient(x, T(1) + math::exp_above(-inner));
    }
    template <class T>
    constexpr T derivative(T x) const {
        const T square = x * x;
        const T s = math::quotient(T(1), T(1) + math::exp_above(-x * (T(kLinear) + T(kCubic) * square)));
        return s + s * (T(1) - s) * x * (T(kLinear) + T(3 * kCubic) * square);
    }
};

using Activations = FunctionList<Relu, LeakyRelu, Elu, Tanh, Sigmoid, Softplus, Silu, GeluTanh, GeluErf>;

}  // namespace headroom::kernels
