#pragma once
// The built-in functions of one argument. See `functions.hpp` for their contract. NaN gives NaN, except in predicates;
// derivatives at corners are PyTorch's (0 for relu and abs, 1 at clamp's bounds).
//
//     kernels::map(stream, kernels::Relu{}, x, y);
//     kernels::map(stream, kernels::Clamp{-1.0, 1.0}, x, y);
#include <cmath>

#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/functions.hpp>
#include <headroom/kernels/power.hpp>

namespace headroom::kernels {

struct Neg {
    static constexpr const char* name = "neg";
    static constexpr Saves saves = Saves::nothing;
    static constexpr bool integers = true;
    template <class T>
    constexpr T operator()(T x) const {
        return -x;
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(-1);
    }
};

/// factor x + offset
struct Affine {
    static constexpr const char* name = "affine";
    static constexpr Saves saves = Saves::nothing;
    static constexpr bool integers = true;
    static constexpr Accuracy accuracy{.relative = 2, .absolute = 4};
    double factor = 1.0;
    double offset = 0.0;
    static constexpr Affine sample() { return {-1.5, 0.25}; }
    template <class T>
    constexpr T operator()(T x) const {
        return T(factor) * x + T(offset);
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(factor);
    }
};

struct Abs {
    static constexpr const char* name = "abs";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return x < T(0) ? -x : (x == T(0) ? T(0) : x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0));
    }
};

struct Square {
    static constexpr const char* name = "square";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    template <class T>
    constexpr T operator()(T x) const {
        return x * x;
    }
    template <class T>
    constexpr T derivative(T x) const {
        return T(2) * x;
    }
};

struct Reciprocal {
    static constexpr const char* name = "reciprocal";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 2;
    static constexpr Domain domain{.low = 0.1, .high = 9};
    template <class T>
    constexpr T operator()(T x) const {
        return T(1) / x;
    }
    template <class T>
    constexpr T derivative(T y) const {
        return -y * y;
    }
};

struct Sqrt {
    static constexpr const char* name = "sqrt";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 2;
    static constexpr Domain domain{.low = 0.01, .high = 9};
    template <class T>
    constexpr T operator()(T x) const {
        return std::sqrt(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return T(0.5) / y;
    }
};

/// 1 / sqrt(x)
struct Rsqrt {
    static constexpr const char* name = "rsqrt";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 4;
    static constexpr Domain domain{.low = 0.1, .high = 9};
    static constexpr Accuracy accuracy{.relative = 3};
    template <class T>
    constexpr T operator()(T x) const {
        return T(1) / std::sqrt(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return T(-0.5) * y * y * y;
    }
};

/// x to the power of a constant; for 2, 0.5, -1 and -0.5 there are faster functions.
struct PowScalar {
    static constexpr const char* name = "pow_scalar";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 32;
    static constexpr Domain domain{.low = 0.1, .high = 7};
    static constexpr Accuracy accuracy{.relative = 4};
    double exponent = 1.0;
    static constexpr PowScalar sample() { return {2.5}; }
    template <class T>
    constexpr T operator()(T x) const {
        return math::pow(x, T(exponent));
    }
    template <class T>
    constexpr T derivative(T x) const {
        return exponent == 0.0 ? T(0) : T(exponent) * math::pow(x, T(exponent - 1.0));
    }
};

struct Exp {
    static constexpr const char* name = "exp";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -80, .high = 80};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T x) const {
        return math::exp(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return y;
    }
};

/// e^x - 1
struct Expm1 {
    static constexpr const char* name = "expm1";
    static constexpr Saves saves = Saves::output;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -10, .high = 80};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T x) const {
        return math::expm1(x);
    }
    template <class T>
    constexpr T derivative(T y) const {
        return y + T(1);
    }
};

struct Log {
    static constexpr const char* name = "log";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = 0.01, .high = 50};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T x) const {
        return math::log(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return T(1) / x;
    }
};

/// log(1 + x)
struct Log1p {
    static constexpr const char* name = "log1p";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = -0.9, .high = 50};
    static constexpr Accuracy accuracy{.relative = 6};
    template <class T>
    constexpr T operator()(T x) const {
        return math::log1p(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return T(1) / (T(1) + x);
    }
};

struct Sin {
    static constexpr const char* name = "sin";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 12;
    static constexpr Domain domain{.low = -40, .high = 40};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T x) const {
        return math::sin(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return math::cos(x);
    }
};

struct Cos {
    static constexpr const char* name = "cos";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 12;
    static constexpr Domain domain{.low = -40, .high = 40};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T x) const {
        return math::cos(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return -math::sin(x);
    }
};

struct Erf {
    static constexpr const char* name = "erf";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Accuracy accuracy{.relative = 4, .derivative = 1};
    template <class T>
    constexpr T operator()(T x) const {
        return math::erf(x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return T(1.1283791670955126) * math::exp(-x * x);
    }
};

/// x clamped to [low, high].
struct Clamp {
    static constexpr const char* name = "clamp";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    double low = 0.0;
    double high = 1.0;
    static constexpr Clamp sample() { return {-0.5, 0.75}; }
    template <class T>
    constexpr T operator()(T x) const {
        return x < T(low) ? T(low) : (x > T(high) ? T(high) : x);
    }
    template <class T>
    constexpr T derivative(T x) const {
        return x >= T(low) && x <= T(high) ? T(1) : T(0);
    }
};

/// -1, 0 or 1; the derivative is 0 everywhere.
struct Sign {
    static constexpr const char* name = "sign";
    static constexpr Saves saves = Saves::nothing;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x);
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(0);
    }
};

/// The largest integer not above x; the derivative is 0 everywhere.
struct Floor {
    static constexpr const char* name = "floor";
    static constexpr Saves saves = Saves::nothing;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return std::floor(x);
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(0);
    }
};

/// The smallest integer not below x; the derivative is 0 everywhere.
struct Ceil {
    static constexpr const char* name = "ceil";
    static constexpr Saves saves = Saves::nothing;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return std::ceil(x);
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(0);
    }
};

/// The nearest integer, ties to even; the derivative is 0 everywhere.
struct Round {
    static constexpr const char* name = "round";
    static constexpr Saves saves = Saves::nothing;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x) const {
        return std::rint(x);
    }
    template <class T>
    constexpr T derivative(T) const {
        return T(0);
    }
};

struct LogicalNot {
    static constexpr const char* name = "logical_not";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T x) const {
        return x == T(0);
    }
};

struct IsFinite {
    static constexpr const char* name = "isfinite";
    template <class T>
    constexpr bool operator()(T x) const {
        return x - x == T(0);
    }
};

struct IsNan {
    static constexpr const char* name = "isnan";
    template <class T>
    constexpr bool operator()(T x) const {
        return x != x;
    }
};

using UnaryFunctions = FunctionList<Neg, Affine, Abs, Square, Reciprocal, Sqrt, Rsqrt, PowScalar, Exp, Expm1, Log,
                                    Log1p, Sin, Cos, Erf, Clamp, Sign, Floor, Ceil, Round>;
/// Functions with bool results.
using UnaryPredicates = FunctionList<LogicalNot, IsFinite, IsNan>;

}  // namespace headroom::kernels
