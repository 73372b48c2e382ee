#pragma once
// Learning rate as a pure function of the step: constant, linear or cosine (Loshchilov and Hutter 2016,
// arXiv:1608.03983) after a linear warm-up, with nanoGPT's formula. There is no state to save. Not for schedules that
// depend on the loss: compute those in the training loop and pass the rate to `GradientAccumulator::step`.
//
//     const optim::Schedule rate{.decay = optim::Decay::cosine, .warmup_steps = 100, .decay_steps = 2000};
//     for (std::int64_t step = 0; step < 2000; ++step) {
//         ...
//         accumulator.step(rate(step));
//     }
#include <cstdint>

namespace headroom::optim {

/// The shape of the decay after warm-up.
enum class Decay : std::uint8_t { constant, linear, cosine };

struct Schedule {
    Decay decay = Decay::constant;
    double peak = 1e-3;             ///< the rate after warm-up
    double floor = 0.0;             ///< the rate from `decay_steps` on; not used by `constant`
    std::int64_t warmup_steps = 0;  ///< 0: none
    std::int64_t decay_steps = 0;   ///< counted from step 0, the warm-up included; not used by `constant`

    /// The rate of step `step`, counted from 0. In warm-up: peak * (step + 1) / (warmup_steps + 1). Then, with x going
    /// from 0 at `warmup_steps` to 1 at `decay_steps`: floor + (peak - floor) * (1 - x), or * (1 + cos(pi x)) / 2.
    /// Errors: Error if a decaying schedule has no steps to decay in.
    double operator()(std::int64_t step) const;
};

}  // namespace headroom::optim
