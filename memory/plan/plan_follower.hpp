#pragma once
// Hands out the slots of a Plan, step after step, to requests that come as recorded; all others are for the allocator.
// A slot is given out only if nothing that is live overlaps it, whatever was asked for, skipped or not freed before:
// the last occupants of its range are known exactly (occupancy.hpp), and a live slot is the last occupant of all of its
// own range. Single-threaded: the owner holds a lock. Allocates nothing once made; constant time, amortised, while
// steps are as recorded, at most some hundred comparisons for a request that is not. Internal to memory/.
//
//     follower.begin_step();
//     if (auto place = follower.next(4096, 0)) {
//         for (std::uint32_t before : place->after) wait_for_release_of(before);
//         use(slab + place->offset);
//         follower.release(place->slot);
//     }
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <headroom/memory/plan/occupancy.hpp>
#include <headroom/memory/plan/plan.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom {

struct PlannedSlot {
    std::uint32_t slot = 0;
    std::size_t offset = 0;
    /// A later slot for another stream is planned to lie here: an event will be asked for when this one is released.
    bool crosses = false;
    /// The slots whose release this one's stream must be made to wait for, each once: last occupants of the range that
    /// were for another stream or were released as shared; may contain the slot itself. Wait even if this slot is
    /// released at once: they will not be named again for this range. What marks the end of a slot's use is therefore
    /// needed until the slot is handed out again. Valid until the next call of `next`.
    std::span<const std::uint32_t> after;
};

/// What became of the requests of one step.
struct StepFigures {
    std::uint64_t hits = 0;
    std::uint64_t hit_bytes = 0;
    std::uint64_t misses = 0;  ///< not as recorded, or the slot's range is occupied
    std::uint64_t missed_bytes = 0;
    std::uint64_t blocked = 0;  ///< of the misses: as recorded, but occupied
    std::uint64_t outside = 0;  ///< as recorded, and known to outlive the step: never planned
};

class PlanFollower {
  public:
    explicit PlanFollower(Plan plan);

    const Plan& plan() const noexcept { return plan_; }

    /// The requests that follow are compared with the recorded ones from the first on.
    void begin_step() noexcept;
    /// The place for a request of `bytes` (as recorded: rounded) on `stream`, if it is the next that was recorded for
    /// that stream and its range is free. After a deviation it finds its way back: recorded requests may come with
    /// other sizes, others in between; one may be left out; beyond that, two in a row have to agree with recorded ones
    /// not far away.
    std::optional<PlannedSlot> next(std::size_t bytes, StreamId stream) noexcept;
    /// Gives a slot back; in any order, in any later step. `shared`: work on streams other than the slot's may still be
    /// using it. Errors: Error if it is not out.
    void release(std::uint32_t slot, bool shared = false);

    /// Slots that are out: while there are any, the plan's memory is in use.
    std::uint32_t live() const noexcept { return live_; }
    const StepFigures& this_step() const noexcept { return this_step_; }
    const StepFigures& last_step() const noexcept { return last_step_; }
    /// More than half of the bytes missed in each of the last two steps that asked for any: time to record anew.
    bool stale() const noexcept { return bad_steps_ >= 2; }

  private:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    static constexpr std::uint32_t kAhead = 128;  ///< requests: more than a layer's
    static constexpr std::uint32_t kBehind = 16;

    /// How far a stream has come in its track.
    struct Cursor {
        std::uint32_t position = 0;
        std::uint32_t missed = 0;  ///< requests since the last one that agreed
        std::size_t previous = 0;  ///< bytes of the stream's last request in this step; 0 if there was none
    };
    struct State {
        bool live = false;
        bool shared = false;
        std::uint64_t seen = 0;  ///< the value of `searches_` when last put into `after_`
    };

    std::uint32_t match(std::size_t bytes, StreamId stream) noexcept;
    std::uint32_t track_of(StreamId stream) noexcept;
    static std::uint32_t realign(const Plan::Track& track, const Cursor& cursor, std::size_t bytes) noexcept;
    bool find_occupants(const Plan::Slot& slot) noexcept;
    void miss(std::size_t bytes) noexcept;

    Plan plan_;
    std::vector<Cursor> cursors_;  ///< by track
    std::uint32_t track_ = 0;      ///< that of the last request
    std::vector<State> states_;    ///< by slot
    Occupancy occupancy_;
    std::vector<std::uint32_t> after_;
    std::uint64_t searches_ = 0;
    std::uint32_t live_ = 0;
    StepFigures this_step_;
    StepFigures last_step_;
    int bad_steps_ = 0;
};

}  // namespace headroom
