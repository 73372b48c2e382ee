#pragma once
// Throughput of training steps in units per second, from the times at which steps were seen to be done. Steps seen
// together share the time since the last look. The first steps warm up caches and are left out.
//
//     Throughput throughput(steps, clock());
//     throughput.look(10, 10 * batch, clock());
//     fmt::print("{} samples/s\n", throughput.rate());
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <headroom/training/clock.hpp>

namespace headroom::training {

class Throughput {
  public:
    Throughput(std::int64_t steps, Moment begin) : warm_up_(steps >= 20 ? 10 : steps / 2), last_(begin) {}
    /// Records that `steps` more steps of `units` each are done. During warm-up nothing may be queued behind them, so
    /// that the counted steps begin now.
    void look(std::int64_t steps, double units, Moment now) {
        const double seconds = seconds_between(std::exchange(last_, now), now);
        const double done = static_cast<double>(steps) * units;
        if (warming_up()) {
            warm_up_ -= steps;
            warm_up_seconds_ += seconds;
            recent_ = done / seconds;
            return;
        }
        units_ += done;
        seconds_ += seconds;
        step_seconds_.emplace_back(seconds / static_cast<double>(steps), steps);
        counted_ += steps;
    }
    /// Starts the clock anew after other work. Nothing may be queued.
    void begin(Moment now) { last_ = now; }
    bool warming_up() const { return warm_up_ > 0; }
    /// 0 before anything was counted.
    double rate() const { return seconds_ > 0 ? units_ / seconds_ : recent_; }
    /// Median seconds per step, with the steps of one look taken as equally long; none before anything was counted.
    std::optional<double> step_seconds() const {
        if (step_seconds_.empty()) return std::nullopt;
        std::vector<std::pair<double, std::int64_t>> sorted = step_seconds_;
        std::sort(sorted.begin(), sorted.end());
        std::int64_t before = 0;  // steps that took less
        const auto middle = std::find_if(sorted.begin(), sorted.end(),
                                         [&](const auto& look) { return (before += look.second) > counted_ / 2; });
        return middle->first;
    }
    /// Seconds of all steps, including warm-up.
    double seconds() const { return warm_up_seconds_ + seconds_; }

  private:
    std::int64_t warm_up_;  ///< warm-up steps left
    Moment last_;
    double warm_up_seconds_ = 0;
    double units_ = 0;
    double seconds_ = 0;
    double recent_ = 0;
    std::int64_t counted_ = 0;                                   ///< steps after warm-up
    std::vector<std::pair<double, std::int64_t>> step_seconds_;  ///< for each look: seconds per step, and steps
};

}  // namespace headroom::training
