#pragma once
// The update of one parameter in one step, from one source for every device, and the constants of a step, computed in
// f64 and rounded once. Call `adamw` and `sgd`.
//
//     const AdamWFactors<float> factors(step, learning_rate, multiplier, *steps + 1);
//     if (!skips_step(multiplier)) factors.update(gradient[i], parameter[i], first[i], second[i]);
#include <cmath>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>

namespace headroom::kernels {

/// True for 0 and NaN.
constexpr bool skips_step(double multiplier) { return !(multiplier < 0 || multiplier > 0); }

template <class T>
struct AdamWFactors {
    T gradient, decay, first, second, size, correction, epsilon;

    /// `number` of this step, from 1.
    constexpr AdamWFactors(const AdamWStep& step, double learning_rate, double multiplier, double number)
        : gradient(static_cast<T>(multiplier)),
          decay(static_cast<T>(1 - learning_rate * step.weight_decay)),
          first(static_cast<T>(1 - step.beta1)),
          second(static_cast<T>(1 - step.beta2)),
          size(static_cast<T>(learning_rate / (1 - std::pow(step.beta1, number)))),
          correction(static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, number)))),
          epsilon(static_cast<T>(step.epsilon)) {}

    [[gnu::always_inline]] constexpr void update(T raw_gradient, T& parameter, T& first_moment,
                                                 T& second_moment) const {
        const T g = raw_gradient * gradient;
        const T m = first_moment + first * (g - first_moment);
        const T v = second_moment + second * (g * g - second_moment);
        first_moment = m;
        second_moment = v;
        parameter = decay * parameter - size * m / (std::sqrt(v) * correction + epsilon);
    }
};

template <class T>
struct SgdFactors {
    T gradient, rate, momentum, decay;

    constexpr SgdFactors(const SgdStep& step, double learning_rate, double multiplier)
        : gradient(static_cast<T>(multiplier)),
          rate(static_cast<T>(learning_rate)),
          momentum(static_cast<T>(step.momentum)),
          decay(static_cast<T>(step.weight_decay)) {}

    [[gnu::always_inline]] constexpr void update(T raw_gradient, T& parameter) const {
        const T g = raw_gradient * gradient + decay * parameter;
        parameter -= rate * g;
    }
    template <bool Nesterov>
    [[gnu::always_inline]] constexpr void update(T raw_gradient, T& parameter, T& velocity) const {
        const T g = raw_gradient * gradient + decay * parameter;
        const T v = momentum * velocity + g;
        velocity = v;
        parameter -= rate * (Nesterov ? g + momentum * v : v);
    }
};

}  // namespace headroom::kernels
