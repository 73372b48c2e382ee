#pragma once
// Who lay last on each part of a stretch of memory. The stretch is cut into parts, so that every slot covers whole
// parts; runs of parts with the same last occupant are kept as one, so that a look at a slot's range costs as much as
// there are different occupants in it, and taking it makes them one: constant time each, amortised. Internal to
// memory/plan/.
//
//     Occupancy occupancy(3);
//     occupancy.take(0, 2, 7);                                            // slot 7 on parts 0 and 1
//     occupancy.visit(1, 3, [](std::uint32_t slot) { return true; });     // 7, Occupancy::kNobody
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headroom {

class Occupancy {
  public:
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    /// Of nobody, at first.
    explicit Occupancy(std::uint32_t parts);

    /// Calls visit(occupant) for the last occupants of the parts first, ..., last - 1 in order of address, once per
    /// run, until it returns false. Returns whether it never did.
    template <class Visit>
    bool visit(std::uint32_t first, std::uint32_t last, Visit&& visit) const {
        for (std::uint32_t run = first < last ? run_of(first) : last; run < last; run = runs_[run].end) {
            if (!visit(runs_[run].occupant)) return false;
        }
        return true;
    }
    /// Makes `occupant` the last one of the parts first, ..., last - 1.
    void take(std::uint32_t first, std::uint32_t last, std::uint32_t occupant) noexcept;

  private:
    /// Known by its first part; those of other parts mean nothing.
    struct Run {
        std::uint32_t end;
        std::uint32_t occupant;
    };
    std::uint32_t run_of(std::uint32_t part) const noexcept;
    void begin_run(std::uint32_t part, Run run) noexcept;
    void end_run(std::uint32_t part) noexcept;

    std::vector<Run> runs_;               ///< by part
    std::vector<std::uint64_t> starts_;   ///< a bit per part: a run begins here
    std::vector<std::uint64_t> nonzero_;  ///< a bit per word of `starts_`
};

}  // namespace headroom
