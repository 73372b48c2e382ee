#pragma once
// Decides from the reports of a job's ranks whether one of them has ended or hangs. It has no clock and no connections:
// rank 0's watch (watch.hpp) feeds it time and reports.
//
//     WatchedRanks ranks(4, /*patience=*/600);
//     ranks.heard(2, {.steps = 17, .waits = true});
//     ranks.pass(1.0);                                    // a second later
//     if (const std::string why = ranks.verdict(); !why.empty()) fmt::print(stderr, "{}\n", why);
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headroom::dist {

/// Measures the time that a watch was awake. A process that was suspended has missed the other ranks' reports, so a
/// long gap between two ticks counts as two ticks.
class WatchedTime {
  public:
    /// `tick`: seconds.
    explicit WatchedTime(double tick) : longest_(2 * tick) {}
    /// Seconds since the last call, at most two ticks; 0 on the first call.
    double pass(std::chrono::steady_clock::time_point now);

  private:
    double longest_;
    bool begun_ = false;
    std::chrono::steady_clock::time_point last_;
};

/// A rank's report of its main thread (memory/progress.hpp, core/internal/exchange_count.hpp).
struct Beat {
    std::uint64_t steps = 0;
    bool waits = false;
    std::uint64_t exchanges = 0;  ///< exchanges begun

    bool operator==(const Beat&) const = default;
};

class WatchedRanks {
  public:
    /// Seconds before a rank's end is reported, for the launcher to end the other ranks, or for them to report their
    /// own errors.
    static constexpr double kGrace = 2;

    /// `patience`: seconds that ranks wait for one without progress.
    WatchedRanks(int ranks, double patience) : ranks_(static_cast<std::size_t>(ranks)), patience_(patience) {}

    void heard(int rank, const Beat& beat);
    /// The rank has finished normally.
    void finished(int rank);
    /// The rank's connection has ended.
    void lost(int rank);
    void pass(double seconds);
    /// Why the job must end, in one line that names the ranks; empty if it may continue.
    std::string verdict() const;

  private:
    enum class State { here, finished, lost };
    struct Rank {
        State state = State::here;
        Beat beat;
        double still = 0;   ///< seconds since its beat changed or it finished
        double silent = 0;  ///< seconds since its last beat
        double gone = 0;    ///< seconds since it was lost
    };
    Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    template <class Condition>
    std::vector<std::size_t> those(const Condition& condition) const;
    /// Lists the number of exchanges begun, with the ranks.
    std::string exchanges_begun() const;

    std::vector<Rank> ranks_;
    double patience_;
};

}  // namespace headroom::dist
