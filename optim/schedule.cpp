#include <headroom/optim/schedule.hpp>

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::optim {

double Schedule::operator()(std::int64_t step) const {
    if (decay != Decay::constant && decay_steps < 1) {
        throw Error(
            fmt::format("schedule: with a decay, decay_steps must be at least 1, got {}; otherwise the rate would be "
                        "{} from the first step",
                        decay_steps, floor));
    }
    if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
    if (decay == Decay::constant) return peak;
    if (step >= decay_steps) return floor;
    const double x = static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
    const double share = decay == Decay::linear ? 1 - x : 0.5 * (1 + std::cos(std::numbers::pi * x));
    return floor + share * (peak - floor);
}

}  // namespace headroom::optim
