#pragma once
// The built-in functions of two arguments. See `functions.hpp` for their contract.
//
//     kernels::map(stream, kernels::Mul{}, a, b, y);             // b may be broadcast
//     kernels::map_backward_a(stream, kernels::Mul{}, a, b, dy, 0.0f, da);
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/functions.hpp>
#include <headroom/kernels/power.hpp>

namespace headroom::kernels {

struct Add {
    static constexpr const char* name = "add";
    static constexpr Saves saves = Saves::nothing;
    static constexpr bool integers = true;
    template <class T>
    constexpr T operator()(T a, T b) const {
        return a + b;
    }
    template <class T>
    constexpr T derivative_a(T, T) const {
        return T(1);
    }
    template <class T>
    constexpr T derivative_b(T, T) const {
        return T(1);
    }
};

struct Sub {
    static constexpr const char* name = "sub";
    static constexpr Saves saves = Saves::nothing;
    static constexpr bool integers = true;
    template <class T>
    constexpr T operator()(T a, T b) const {
        return a - b;
    }
    template <class T>
    constexpr T derivative_a(T, T) const {
        return T(1);
    }
    template <class T>
    constexpr T derivative_b(T, T) const {
        return T(-1);
    }
};

struct Mul {
    static constexpr const char* name = "mul";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    template <class T>
    constexpr T operator()(T a, T b) const {
        return a * b;
    }
    template <class T>
    constexpr T derivative_a(T, T b) const {
        return b;
    }
    template <class T>
    constexpr T derivative_b(T a, T) const {
        return a;
    }
};

struct Div {
    static constexpr const char* name = "div";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 2;
    static constexpr Domain domain{.low = 0.3, .high = 3};
    template <class T>
    constexpr T operator()(T a, T b) const {
        return a / b;
    }
    template <class T>
    constexpr T derivative_a(T, T b) const {
        return T(1) / b;
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        return -a / (b * b);
    }
};

/// a to the power of b. The derivative by a is 0 where b = 0, the one by b is 0 where a = 0 and b >= 0.
struct Pow {
    static constexpr const char* name = "pow";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 32;
    static constexpr Domain domain{.low = 0.3, .high = 3};
    static constexpr Accuracy accuracy{.relative = 4};
    template <class T>
    constexpr T operator()(T a, T b) const {
        return math::pow(a, b);
    }
    template <class T>
    constexpr T derivative_a(T a, T b) const {
        const T value = b * math::pow(a, b - T(1));
        return b == T(0) ? T(0) : value;
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        const T value = math::pow(a, b) * math::log(a);
        return a == T(0) && b >= T(0) ? T(0) : value;
    }
};

/// The larger; NaN if either is. Equal arguments share the derivative.
struct Maximum {
    static constexpr const char* name = "maximum";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T a, T b) const {
        const T larger = a > b ? a : b;  // b if either is NaN
        return a == a ? larger : a;
    }
    template <class T>
    constexpr T derivative_a(T a, T b) const {
        return a > b ? T(1) : (a == b ? T(0.5) : T(0));
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        return derivative_a(b, a);
    }
};

/// The smaller; NaN if either is. Equal arguments share the derivative.
struct Minimum {
    static constexpr const char* name = "minimum";
    static constexpr Saves saves = Saves::input;
    static constexpr bool integers = true;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T a, T b) const {
        const T smaller = a < b ? a : b;  // b if either is NaN
        return a == a ? smaller : a;
    }
    template <class T>
    constexpr T derivative_a(T a, T b) const {
        return a < b ? T(1) : (a == b ? T(0.5) : T(0));
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        return derivative_a(b, a);
    }
};

/// a + weight (b - a); computed from b if that is nearer, so that a weight of 1 gives b.
struct Lerp {
    static constexpr const char* name = "lerp";
    static constexpr Saves saves = Saves::nothing;
    static constexpr Accuracy accuracy{.relative = 2, .absolute = 16};
    double weight = 0.5;
    static constexpr Lerp sample() { return {0.3}; }
    template <class T>
    constexpr T operator()(T a, T b) const {
        return weight < 0.5 ? a + static_cast<T>(weight) * (b - a) : b - static_cast<T>(1 - weight) * (b - a);
    }
    template <class T>
    constexpr T derivative_a(T, T) const {
        return static_cast<T>(1 - weight);
    }
    template <class T>
    constexpr T derivative_b(T, T) const {
        return static_cast<T>(weight);
    }
};

/// a sigmoid(b) (Dauphin et al. 2017).
struct Glu {
    static constexpr const char* name = "glu";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Accuracy accuracy{.relative = 8, .derivative = 48};
    template <class T>
    constexpr T operator()(T a, T b) const {
        return a * math::sigmoid(b);
    }
    template <class T>
    constexpr T derivative_a(T, T b) const {
        return math::sigmoid(b);
    }
    template <class T>
    constexpr T derivative_b(T a, T b) const {
        const T s = math::sigmoid(b);
        return a * s * (T(1) - s);
    }
};

/// silu(a) b (Shazeer 2020).
struct SwiGlu {
    static constexpr const char* name = "swiglu";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Accuracy accuracy{.relative = 10, .derivative = 180};
    template <class T>
    constexpr T operator()(T a, T b) const {
        return Silu{}(a)*b;
    }
    template <class T>
    constexpr T derivative_a(T a, T b) const {
        return Silu{}.derivative(a) * b;
    }
    template <class T>
    constexpr T derivative_b(T a, T) const {
        return Silu{}(a);
    }
};

struct Equal {
    static constexpr const char* name = "eq";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a == b;
    }
};

struct NotEqual {
    static constexpr const char* name = "ne";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a != b;
    }
};

struct Less {
    static constexpr const char* name = "lt";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a < b;
    }
};

struct LessEqual {
    static constexpr const char* name = "le";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a <= b;
    }
};

struct Greater {
    static constexpr const char* name = "gt";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a > b;
    }
};

struct GreaterEqual {
    static constexpr const char* name = "ge";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return a >= b;
    }
};

/// Nonzero counts as true.
struct LogicalAnd {
    static constexpr const char* name = "logical_and";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return (a != T(0)) & (b != T(0));
    }
};

struct LogicalOr {
    static constexpr const char* name = "logical_or";
    static constexpr bool integers = true;
    template <class T>
    constexpr bool operator()(T a, T b) const {
        return (a != T(0)) | (b != T(0));
    }
};

using BinaryFunctions = FunctionList<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Lerp, Glu, SwiGlu>;
/// Functions with bool results.
using Comparisons = FunctionList<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd, LogicalOr>;

}  // namespace headroom::kernels
