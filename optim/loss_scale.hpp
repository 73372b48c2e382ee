#pragma once
// The factor that keeps f16 gradients from underflowing (Micikevicius et al. 2018, arXiv:1710.03740). It grows while
// everything is finite; on an overflow it halves and the step is skipped. `GradientAccumulator` applies it. It is off
// by default, since bf16 and f32 have enough exponent range.
//
//     optim::GradientAccumulator accumulator(parameters, optimizer, {.scale = optim::LossScale::dynamic()});
//     fmt::print("{}\n", accumulator.loss_scale().value());   // reads it from the device
#include <cstdint>

#include <headroom/kernels/step_control/step_control.hpp>

namespace headroom::optim {

struct LossScaleOptions {
    double initial = 65536;
    double growth = 2;             ///< factor after `interval` finite steps in a row
    double backoff = 0.5;          ///< factor after a step that was not finite
    std::int64_t interval = 2000;  ///< steps
    double minimum = 1.0 / 65536;  ///< if a step is not finite at this scale, training has diverged
    double maximum = 16777216;
};

class LossScale {
  public:
    /// The state to save in a checkpoint.
    struct State {
        double scale = 1;
        std::int64_t good_steps = 0;  ///< finite steps since the last change
    };

    /// Off: always 1.
    LossScale() = default;
    /// Errors: Error unless growth > 1, 0 < backoff < 1, interval >= 1 and 0 < minimum <= initial <= maximum.
    static LossScale dynamic(const LossScaleOptions& options = {});

    bool enabled() const { return enabled_; }
    double value() const { return state_.scale; }
    /// True if another non-finite step can't lower the scale further.
    bool exhausted() const { return !enabled_ || state_.scale <= options_.minimum; }
    /// Updates the scale after a step; `finite`: whether all gradients were finite.
    void update(bool finite);

    State state() const { return state_; }
    /// Errors: Error unless scale is finite and above 0 (and 1 when off), and good_steps not negative.
    void set_state(const State& state);

    /// The same rule as an argument for kernels.
    kernels::LossScaleRule rule() const;

  private:
    LossScaleOptions options_;
    State state_;
    bool enabled_ = false;
};

}  // namespace headroom::optim
