#pragma once
// Losses of one prediction and one target, as pointwise functions (see `functions.hpp`); their sum is the loss of an
// array. For classes see cross_entropy/.
//
//     kernels::map(stream, kernels::SquaredDifference{}, x, y, losses);
//     kernels::map_backward_a(stream, kernels::SquaredDifference{}, x, y, dloss, 0.0f, dx);   // dloss [] is broadcast
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/functions.hpp>
#include <headroom/kernels/power.hpp>

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

/// |x - y|, with derivative 0 where they are equal.
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

/// With d = x - y: d^2 / (2 beta) where |d| < beta, else |d| - beta / 2 (Girshick 2015, arXiv:1504.08083).
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

/// The cross entropy of a probability y and p = sigmoid(x), times (1 - p_t)^gamma and alpha_t, where p_t = p y + (1 -
/// p) (1 - y) and alpha_t likewise; with alpha below 0, without alpha_t (Lin et al. 2017, arXiv:1708.02002).
struct FocalLoss {
    static constexpr const char* name = "sigmoid_focal_loss";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 48;
    static constexpr Domain domain{.low = 0.02, .high = 0.98};  // y is a probability
    static constexpr Accuracy accuracy{.relative = 30, .absolute = 4, .derivative = 60};
    double alpha = 0.25;
    double gamma = 2.0;
    static constexpr FocalLoss sample() { return {0.3, 1.5}; }
    template <class T>
    constexpr T operator()(T x, T y) const {
        const Parts<T> parts(*this, x, y);
        return parts.share * parts.power * parts.entropy;
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        const Parts<T> parts(*this, x, y);
        return parts.share * parts.power * (parts.p - y + parts.slope * parts.p * parts.rest * (T(1) - T(2) * y));
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        const Parts<T> parts(*this, x, y);
        const T share = alpha < 0 ? T(0) : static_cast<T>(2 * alpha - 1);
        return parts.power * (share * parts.entropy + parts.share * (parts.slope * (parts.rest - parts.p) - x));
    }

  private:
    template <class T>
    struct Parts {
        T p, rest, entropy, power, share, slope;  ///< rest: 1 - p; slope: gamma entropy / (1 - p_t)
        constexpr Parts(const FocalLoss& f, T x, T y)
            : p(math::sigmoid(x)), rest(math::sigmoid(-x)), entropy(math::softplus(x) - x * y) {
            const T wrong = p * (T(1) - y) + rest * y, g = static_cast<T>(f.gamma), a = static_cast<T>(f.alpha);
            power = math::pow(wrong, g);
            share = f.alpha < 0 ? T(1) : a * y + (T(1) - a) * (T(1) - y);
            slope = wrong == T(0) ? T(0) : g * entropy / wrong;  // it is multiplied by the power, which is 0 there
        }
    };
};

/// y (log y - x), 0 where y is 0, for a probability y and the logarithm x of another.
struct KlDivergence {
    static constexpr const char* name = "kl_div";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 12;
    static constexpr Domain domain{.low = 0.05, .high = 4.0};
    static constexpr Accuracy accuracy{.relative = 4, .absolute = 40, .derivative = 20};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return y == T(0) ? T(0) : y * (math::log(y) - x);
    }
    template <class T>
    constexpr T derivative_a(T, T y) const {
        return -y;
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return math::log(y) + T(1) - x;
    }
};

/// e^y (y - x): the same for two logarithms.
struct KlDivergenceOfLogarithms {
    static constexpr const char* name = "kl_div_log_target";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 12;
    static constexpr Domain domain{.low = -5.0, .high = 1.0};
    static constexpr Accuracy accuracy{.relative = 8, .derivative = 60};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return math::exp(y) * (y - x);
    }
    template <class T>
    constexpr T derivative_a(T, T y) const {
        return -math::exp(y);
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return math::exp(y) * (y - x + T(1));
    }
};

using LossFunctions = FunctionList<SquaredDifference, AbsoluteDifference, SmoothAbsoluteDifference, LogisticLoss,
                                   FocalLoss, KlDivergence, KlDivergenceOfLogarithms>;

}  // namespace headroom::kernels
