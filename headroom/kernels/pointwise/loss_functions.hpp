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

using LossFunctions = FunctionList<SquaredDifference, LogisticLoss>;

}  // namespace headroom::kernels
