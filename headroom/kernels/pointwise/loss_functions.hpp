#pragma once
// Losses of one prediction and one target, as pointwise functions (see `functions.hpp`); their sum is the loss of an
// array. Not for classes: see cross_entropy/.
//
//     kernels::map(stream, kernels::SquaredDifference{}, x, y, losses);
//     kernels::map_backward_a(stream, kernels::SquaredDifference{}, x, y, dloss, 0.0f, dx);   // dloss [] is broadcast
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom::kernels {

/// (x - y)^2
struct SquaredDifference {
    static constexpr const char* name = "mse_loss";
    static constexpr Saves saves = Saves::input;
    static constexpr Accuracy accuracy{.relative = 3};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return (x - y) * (x - y);
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        return T(2) * (x - y);
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return T(2) * (y - x);
    }
};

/// |x - y|, whose derivative is 0 where they are equal.
struct AbsoluteDifference {
    static constexpr const char* name = "l1_loss";
    static constexpr Saves saves = Saves::input;
    static constexpr Domain domain{.kinked = true};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return x > y ? x - y : y - x;
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        return x > y ? T(1) : (x == y ? T(0) : T(-1));
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return derivative_a(y, x);
    }
};

/// With d = x - y: d^2 / (2 beta) where |d| < beta, |d| - beta / 2 beyond (Girshick 2015, arXiv:1504.08083).
struct SmoothAbsoluteDifference {
    static constexpr const char* name = "smooth_l1_loss";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 2;
    static constexpr Domain domain{.kinked = true};
    static constexpr Accuracy accuracy{.relative = 4};
    double beta = 1.0;
    static constexpr SmoothAbsoluteDifference sample() { return {0.8}; }
    template <class T>
    constexpr T operator()(T x, T y) const {
        const T size = x > y ? x - y : y - x, b = static_cast<T>(beta);
        return size < b ? T(0.5) * size * size / b : size - T(0.5) * b;
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        const T d = x - y, b = static_cast<T>(beta);
        if (d >= b) return T(1);
        return d <= -b ? T(-1) : d / b;
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return -derivative_a(x, y);
    }
};

/// log(1 + e^x) - x y: the cross entropy of a probability y and sigmoid(x), without overflow for any x.
struct LogisticLoss {
    static constexpr const char* name = "binary_cross_entropy_with_logits";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 16;
    static constexpr Accuracy accuracy{.relative = 6, .absolute = 60, .derivative = 30};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return math::softplus(x) - x * y;
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        return math::sigmoid(x) - y;
    }
    template <class T>
    constexpr T derivative_b(T x, T) const {
        return -x;
    }
};

using LossFunctions = FunctionList<SquaredDifference, AbsoluteDifference, SmoothAbsoluteDifference, LogisticLoss>;

}  // namespace headroom::kernels
