#pragma once
// Times single calls of some ten nanoseconds: by the processor's time stamp counter, between fences, so that a call is
// over when its time is taken; the timer's own median is subtracted. A fenced call can't overlap with what is around
// it, so a mean over many of them is larger than that of a plain loop. Where there is no such counter, by a steady
// clock, whose ticks may be longer than the call.
//
//     const CallTimer timer;
//     std::vector<std::uint32_t> ticks;
//     ticks.push_back(timer.ticks([&] { work(); }));
//     fmt::print("{} ns\n", timer.nanoseconds(ticks, 0.99));
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace headroom::bench {

class CallTimer {
  public:
    CallTimer() : nanoseconds_per_tick_(calibrate()) {
        std::vector<std::uint32_t> own;
        for (int i = 0; i < 100'000; ++i) own.push_back(ticks([] {}));
        own_ticks_ = quantile(own, 0.5);
        resolution_ticks_ = smallest_difference(own);
    }

    template <class Call>
    std::uint32_t ticks(Call&& call) const {
        const std::uint64_t begin = now();
        call();
        const std::uint64_t taken = now() - begin;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(taken, std::numeric_limits<std::uint32_t>::max()));
    }

    /// Of the calls' durations, that which a share `rank` of them doesn't exceed. Reorders them; none gives 0.
    double nanoseconds(std::vector<std::uint32_t>& ticks, double rank) const {
        return std::max(0.0, quantile(ticks, rank) - own_ticks_) * nanoseconds_per_tick_;
    }
    /// What was subtracted.
    double own_nanoseconds() const { return own_ticks_ * nanoseconds_per_tick_; }
    /// Durations are multiples of it: some processors count in leaps.
    double resolution_nanoseconds() const { return resolution_ticks_ * nanoseconds_per_tick_; }

  private:
    static std::uint64_t now() {
#if defined(__x86_64__)
        unsigned processor;
        _mm_lfence();
        const std::uint64_t ticks = __rdtscp(&processor);
        _mm_lfence();
        return ticks;
#else
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
    }
    static double quantile(std::vector<std::uint32_t>& ticks, double rank) {
        if (ticks.empty()) return 0;
        const auto place = static_cast<std::ptrdiff_t>(rank * static_cast<double>(ticks.size() - 1));
        std::nth_element(ticks.begin(), ticks.begin() + place, ticks.end());
        return ticks[static_cast<std::size_t>(place)];
    }
    static double smallest_difference(std::vector<std::uint32_t> ticks) {
        std::sort(ticks.begin(), ticks.end());
        std::uint32_t smallest = std::numeric_limits<std::uint32_t>::max();
        for (std::size_t i = 1; i < ticks.size(); ++i) {
            if (ticks[i] > ticks[i - 1]) smallest = std::min(smallest, ticks[i] - ticks[i - 1]);
        }
        return smallest == std::numeric_limits<std::uint32_t>::max() ? 1 : smallest;
    }
    static double calibrate() {
        const auto begin = std::chrono::steady_clock::now();
        const std::uint64_t first = now();
        while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
        }
        const std::uint64_t last = now();
        const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
        return time.count() / static_cast<double>(last - first);
    }

    double nanoseconds_per_tick_;
    double own_ticks_ = 0;
    double resolution_ticks_ = 0;
};

}  // namespace headroom::bench
