#pragma once
// Functions of an element and its reduction's result, whose derivatives give the reduction's gradient; and the quotient
// for the gradient of a root. The result is broadcast over its elements.
//
//     kernels::map_backward_a(stream, kernels::LogSumExpTerm{}, x, largest, scaled, 0.0f, dx);
//     kernels::map(stream, kernels::QuotientOrZero{}, dy, y, scaled);
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/pointwise/functions.hpp>

namespace headroom::kernels {

/// e^(x - y). With y the largest x, this is the derivative of log(sum(e^x)) times the sum of these terms.
struct LogSumExpTerm {
    static constexpr const char* name = "log_sum_exp_term";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Accuracy accuracy{.relative = 16};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return math::exp(x - y);
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        return math::exp(x - y);
    }
    template <class T>
    constexpr T derivative_b(T x, T y) const {
        return -math::exp(x - y);
    }
};

/// The logarithm of a sum of exponentials, with the shift added back; a shift that is not finite was not applied.
struct LogSumExpResult {
    static constexpr const char* name = "log_sum_exp_result";
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = 0.3, .high = 3};
    static constexpr Accuracy accuracy{.relative = 6, .absolute = 6};
    template <class T>
    constexpr T operator()(T sum, T shift) const {
        return math::log(sum) + (shift - shift == T(0) ? shift : T(0));
    }
};

/// y log|x|. Its derivative y / x is the derivative of a product y by its factor x; defined here as 0 where x is 0.
struct ProductFactor {
    static constexpr const char* name = "product_factor";
    static constexpr Saves saves = Saves::input;
    static constexpr int cost = 8;
    static constexpr Domain domain{.low = 0.3, .high = 3};
    static constexpr Accuracy accuracy{.relative = 6, .absolute = 1, .derivative = 1};
    template <class T>
    constexpr T operator()(T x, T y) const {
        return y * math::log(x < T(0) ? -x : x);
    }
    template <class T>
    constexpr T derivative_a(T x, T y) const {
        return x == T(0) ? T(0) : y / x;
    }
    template <class T>
    constexpr T derivative_b(T x, T) const {
        return math::log(x < T(0) ? -x : x);
    }
};

/// a / b, or 0 where b is 0: PyTorch's choice of a norm's derivative at 0.
struct QuotientOrZero {
    static constexpr const char* name = "quotient_or_zero";
    static constexpr int cost = 2;
    static constexpr Domain domain{.low = 0.3, .high = 3};
    template <class T>
    constexpr T operator()(T a, T b) const {
        return b == T(0) ? T(0) : a / b;
    }
};

using ReductionFunctions = FunctionList<LogSumExpTerm, LogSumExpResult, ProductFactor, QuotientOrZero>;

}  // namespace headroom::kernels
