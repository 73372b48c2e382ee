#pragma once
// Decides from what the ranks of a job say of themselves whether one of them has ended or hangs. It has no clock and no
// connection of its own: rank 0's watch (watch.hpp) tells it both.
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

/// The time that a watch was awake for. A process that was suspended, with those that it watches or without them, has
/// missed their signs of life, so a long gap between two ticks counts as two ticks.
class WatchedTime {
  public:
    /// `tick`: seconds.
    explicit WatchedTime(double tick) : longest_(2 * tick) {}
    /// Seconds since the last call, at most two ticks; 0 at first.
    double pass(std::chrono::steady_clock::time_point now);

  private:
    double longest_;
    bool begun_ = false;
    std::chrono::steady_clock::time_point last_;
};

/// What a rank says of its main thread (memory/progress.hpp, core/internal/exchange_count.hpp).
struct Beat {
    std::uint64_t steps = 0;
    bool waits = false;
    std::uint64_t exchanges = 0;  ///< begun

    bool operator==(const Beat&) const = default;
};

class WatchedRanks {
  public:
    /// Seconds that a launcher has to end the other ranks, or these to report an error of their own, before a rank's
    /// end is reported.
    static constexpr double kGrace = 2;

    /// `patience`: seconds that ranks wait for one that does not move.
    WatchedRanks(int ranks, double patience) : ranks_(static_cast<std::size_t>(ranks)), patience_(patience) {}

    void heard(int rank, const Beat& beat);
    /// The rank has left in order.
    void finished(int rank);
    /// The rank's connection has ended.
    void lost(int rank);
    void pass(double seconds);
    /// Why the job must end, in a line that names the ranks; empty if it goes on.
    std::string verdict() const;

  private:
    enum class State { here, finished, lost };
    struct Rank {
        State state = State::here;
        Beat beat;
        double still = 0;   ///< seconds since its beat has changed, or it has finished
        double silent = 0;  ///< seconds since a beat has come
        double gone = 0;    ///< seconds since it was lost
    };
    Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    template <class Condition>
    std::vector<std::size_t> those(const Condition& condition) const;
    /// How many exchanges which ranks have begun.
    std::string exchanges_begun() const;

    std::vector<Rank> ranks_;
    double patience_;
};

}  // namespace headroom::dist
