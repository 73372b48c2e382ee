#include <headroom/memory/plan/step_planner.hpp>

#include <algorithm>
#include <utility>

namespace headroom {

StepPlanner::Action StepPlanner::begin_step() {
    if (follower_) {
        follower_->begin_step();
        const StepFigures& last = follower_->last_step();
        if (last.hits > last.misses) next_pause_ = 1;
        return follower_->stale() ? Action::drop : Action::none;
    }
    if (recording_) return Action::build;
    if (--pause_ > 0) return Action::none;
    recorder_.clear();
    recording_ = true;
    return Action::none;
}

void StepPlanner::follow(Plan plan, Block* room) {
    pending_.assign(plan.slots().size(), {});
    follower_.emplace(std::move(plan));
    room_ = room;
    recording_ = false;
    follower_->begin_step();
}

void StepPlanner::give_up() noexcept {
    follower_.reset();
    room_ = nullptr;
    recording_ = false;
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
}

}  // namespace headroom
