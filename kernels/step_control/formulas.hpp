#pragma once
// The arithmetic of `step_control` in f64, from one source for every device. Also for host code that makes the same
// decisions. Compiled without fused multiply-add where devices must agree.
//
//     const StepOutcome outcome = conclude(rule, state);
//     double factor = optim::clip_factor(outcome.gradient_norm, 1.0);
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

#include <headroom/kernels/step_control/step_control.hpp>

namespace headroom::kernels {

constexpr bool is_finite(double x) { return x - x == 0; }

/// The power of two nearest to x on a logarithmic scale; 0 for 0, infinity above the largest power. x must not be
/// negative.
constexpr double nearest_power_of_two(double x) {
    constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52) - 1;
    constexpr std::uint64_t root = 0x6a09e667f3bcc;  // of 2, rounded down
    const bool subnormal = x < 0x1p-1022;
    const auto bits = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
    const std::uint64_t exponent = (bits >> 52) + ((bits & mantissa) > root ? 1 : 0);
    const auto power = std::bit_cast<double>(exponent << 52);
    return subnormal ? power * 0x1p-54 : power;
}

/// min(1, max_norm / (norm + 1e-6)); 1 if `max_norm` is 0.
constexpr double clip_factor(double norm, double max_norm) {
    if (max_norm == 0) return 1;
    const double factor = max_norm / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

/// True if another non-finite step can't lower the scale.
constexpr bool exhausted(const LossScaleRule& rule, double scale) { return !rule.enabled || scale <= rule.minimum; }

/// Updates the loss scale after a step with terms; `finite`: whether the gradients were finite.
constexpr void update_scale(const LossScaleRule& rule, bool finite, double& scale, double& good_steps) {
    if (!rule.enabled) return;
    if (!finite) {
        const double lower = scale * rule.backoff;
        scale = lower > rule.minimum ? lower : rule.minimum;
        good_steps = 0;
    } else if (++good_steps >= rule.interval) {
        const double higher = scale * rule.growth;
        scale = higher < rule.maximum ? higher : rule.maximum;
        good_steps = 0;
    }
}

/// The arithmetic of `add_terms`.
constexpr void add_terms(double terms, double beta, StepState& state) {
    state.terms = beta == 0 ? terms : beta * state.terms + terms;
}

/// The seed that `begin_step` writes.
constexpr double seed_of(const StepState& state) {
    return nearest_power_of_two(state.scale / (state.terms > 1 ? state.terms : 1));
}

/// The decision of `end_step`. A template, because std::sqrt is not constexpr for some compilers.
template <std::same_as<StepState> State>
constexpr StepOutcome conclude(const StepRule& rule, State& state) {
    const double terms = state.terms;
    StepOutcome outcome;
    outcome.terms = terms;
    outcome.verdict = state.stopped != 0 ? StepOutcome::kDiverged : StepOutcome::kSkipped;
    state.multiplier = 0;
    if (terms == 0) return outcome;
    outcome.multiplier = 1 / (state.seed * terms);
    outcome.loss = state.loss_sum / terms;
    outcome.gradient_norm = std::sqrt(state.squared_gradients) * outcome.multiplier;
    if (state.stopped != 0) return outcome;
    const bool finite = is_finite(outcome.gradient_norm);
    if (finite && is_finite(outcome.loss)) {
        outcome.verdict = StepOutcome::kTaken;
        state.multiplier = outcome.multiplier * clip_factor(outcome.gradient_norm, rule.clip);
    } else if (exhausted(rule.scale, state.scale)) {
        outcome.verdict = StepOutcome::kDiverged;
        if (rule.stop_when_diverged) state.stopped = 1;
    }
    update_scale(rule.scale, finite, state.scale, state.good_steps);
    return outcome;
}

/// The arithmetic of `end_step`.
constexpr void end_step(const StepRule& rule, StepState& state, StepOutcome* outcomes, std::int64_t rows) {
    outcomes[static_cast<std::int64_t>(state.ended) % rows] = conclude(rule, state);
    state.ended += 1;
}

}  // namespace headroom::kernels
