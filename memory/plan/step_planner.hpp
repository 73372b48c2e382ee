#pragma once
// When a step is recorded, when a plan made from it is followed, and when that is given up: not before the program has
// begun a second step, since the first one also makes what stays; and after a plan that did not fit what came, later
// each time. Internal to memory/; guarded by the allocator's lock.
//
//     StepPlanner planner;
//     if (planner.begin_step() == StepPlanner::Action::build) planner.follow(Plan(planner.recorder().requests()),
//     room);
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <headroom/memory/allocator/block.hpp>
#include <headroom/memory/plan/plan_follower.hpp>
#include <headroom/memory/plan/step_recorder.hpp>

namespace headroom {

class StepPlanner {
  public:
    /// What the owner is to do at the beginning of a step.
    enum class Action : std::uint8_t {
        none,
        build,  ///< a step was recorded: call `follow`, or `give_up` if there is no room
        drop,   ///< the plan fits no more: call `give_up`
    };
    Action begin_step();

    bool recording() const noexcept { return recording_; }
    bool following() const noexcept { return follower_.has_value(); }
    StepRecorder& recorder() noexcept { return recorder_; }
    PlanFollower& follower() noexcept { return *follower_; }
    const PlanFollower& follower() const noexcept { return *follower_; }
    /// The block that the plan's slots lie in.
    Block* room() const noexcept { return room_; }
    /// What may still use a slot that was given back.
    PendingSet& pending(std::uint32_t slot) noexcept { return pending_[slot]; }
    const std::vector<PendingSet>& pending() const noexcept { return pending_; }

    /// `room`: a held block of the plan's height. Errors: std::bad_alloc.
    void follow(Plan plan, Block* room);
    /// Records anew after a while.
    void give_up() noexcept;

  private:
    static constexpr std::uint32_t kLongestPause = 256;

    bool recording_ = false;
    std::uint32_t pause_ = 1;  ///< steps until the next one is recorded
    std::uint32_t next_pause_ = 1;
    StepRecorder recorder_;
    std::optional<PlanFollower> follower_;
    std::vector<PendingSet> pending_;  ///< by slot
    Block* room_ = nullptr;
};

}  // namespace headroom
