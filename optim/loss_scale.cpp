#include <headroom/optim/loss_scale.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/kernels/step_control/formulas.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

LossScale LossScale::dynamic(const LossScaleOptions& options) {
    // Written so that NaN is refused.
    if (!(options.growth > 1 && options.backoff > 0 && options.backoff < 1 && options.interval >= 1)) {
        throw Error(fmt::format(
            "loss scale: growth must be above 1, backoff between 0 and 1, interval at least 1; got {}, {}, {}",
            options.growth, options.backoff, options.interval));
    }
    if (!(options.minimum > 0 && options.minimum <= options.initial && options.initial <= options.maximum &&
          std::isfinite(options.maximum))) {
        throw Error(fmt::format("loss scale: 0 < minimum <= initial <= maximum must hold, got {}, {}, {}",
                                options.minimum, options.initial, options.maximum));
    }
    LossScale scale;
    scale.options_ = options;
    scale.state_.scale = options.initial;
    scale.enabled_ = true;
    return scale;
}

void LossScale::update(bool finite) {
    auto good_steps = static_cast<double>(state_.good_steps);
    kernels::update_scale(rule(), finite, state_.scale, good_steps);
    state_.good_steps = static_cast<std::int64_t>(good_steps);
}

kernels::LossScaleRule LossScale::rule() const {
    return {.enabled = enabled_,
            .growth = options_.growth,
            .backoff = options_.backoff,
            .interval = static_cast<double>(options_.interval),
            .minimum = options_.minimum,
            .maximum = options_.maximum};
}

void LossScale::set_state(const State& state) {
    const bool fits = std::isfinite(state.scale) && state.scale > 0 && state.good_steps >= 0;
    if (!fits || (!enabled_ && state.scale != 1)) {
        throw Error(
            fmt::format("loss scale: can't restore the state (scale {}, {} good steps); loss scaling is {} here",
                        state.scale, state.good_steps, enabled_ ? "on" : "off"));
    }
    state_ = state;
}

}  // namespace headroom::optim
