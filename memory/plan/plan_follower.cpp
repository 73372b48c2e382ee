#include <headroom/memory/plan/plan_follower.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom {

PlanFollower::PlanFollower(Plan plan)
    : plan_(std::move(plan)),
      cursors_(plan_.tracks().size()),
      states_(plan_.slots().size()),
      occupancy_(plan_.parts()) {
    after_.reserve(plan_.slots().size());
}

void PlanFollower::begin_step() noexcept {
    if (this_step_.hit_bytes + this_step_.missed_bytes > 0) {
        bad_steps_ = this_step_.missed_bytes > this_step_.hit_bytes ? bad_steps_ + 1 : 0;
    }
    last_step_ = std::exchange(this_step_, {});
    std::fill(cursors_.begin(), cursors_.end(), Cursor{});
}

std::optional<PlannedSlot> PlanFollower::next(std::size_t bytes, StreamId stream) noexcept {
    const std::uint32_t number = match(bytes, stream);
    if (number == kNone) {
        miss(bytes);
        return std::nullopt;
    }
    const std::uint32_t index = plan_.tracks()[track_].slots[number];
    if (index == Plan::kNoSlot) {
        ++this_step_.outside;
        return std::nullopt;
    }
    const Plan::Slot& slot = plan_.slots()[index];
    if (!find_occupants(slot)) {
        ++this_step_.blocked;
        miss(bytes);
        return std::nullopt;
    }
    occupancy_.take(slot.first_part, slot.last_part, index);
    states_[index].live = true;
    ++live_;
    ++this_step_.hits;
    this_step_.hit_bytes += bytes;
    return PlannedSlot{index, slot.offset, slot.crosses, after_};
}

void PlanFollower::release(std::uint32_t slot, bool shared) {
    if (slot >= states_.size() || !states_[slot].live) {
        throw Error(fmt::format("plan: slot {} is not out; give each slot back once", slot));
    }
    states_[slot].live = false;
    states_[slot].shared = shared;
    --live_;
}

/// The number of the request in its stream's track, which becomes the current one; kNone if none agrees.
std::uint32_t PlanFollower::match(std::size_t bytes, StreamId stream) noexcept {
    const std::uint32_t found = track_of(stream);
    if (found == kNone) return kNone;
    track_ = found;
    const Plan::Track& track = plan_.tracks()[track_];
    Cursor& cursor = cursors_[track_];
    // Those missed may have come in place of recorded ones.
    std::uint32_t number = cursor.position + cursor.missed;
    if (number >= track.bytes.size() || track.bytes[number] != bytes) number = realign(track, cursor, bytes);
    if (number == kNone) {
        ++cursor.missed;
    } else {
        cursor.position = number + 1;
        cursor.missed = 0;
    }
    cursor.previous = bytes;
    return number;
}

std::uint32_t PlanFollower::track_of(StreamId stream) noexcept {
    const auto tracks = plan_.tracks();
    if (track_ < tracks.size() && tracks[track_].stream == stream) return track_;
    for (std::uint32_t i = 0; i < tracks.size(); ++i) {
        if (tracks[i].stream == stream) return i;
    }
    return kNone;
}

/// A single request may agree by chance, which would throw all that follow off; two in a row rarely do.
std::uint32_t PlanFollower::realign(const Plan::Track& track, const Cursor& cursor, std::size_t bytes) noexcept {
    const auto count = static_cast<std::uint32_t>(track.bytes.size());
    const std::uint32_t position = cursor.position;
    // Those missed may have come in addition, and this one may follow on one that was left out.
    for (const std::uint32_t number : {position, position + 1}) {
        if (number < count && track.bytes[number] == bytes) return number;
    }
    const auto agrees = [&](std::uint32_t number) {
        return track.bytes[number] == bytes && track.bytes[number - 1] == cursor.previous;
    };
    for (std::uint32_t i = position + 1; i < std::min(count, position + kAhead); ++i) {
        if (agrees(i)) return i;
    }
    for (std::uint32_t i = std::min(position, count); i-- > 1 && i + kBehind > position;) {
        if (agrees(i)) return i;
    }
    return kNone;
}

/// False if something live lies in the slot's range; else `after_` are those to wait for.
bool PlanFollower::find_occupants(const Plan::Slot& slot) noexcept {
    after_.clear();
    ++searches_;
    return occupancy_.visit(slot.first_part, slot.last_part, [&](std::uint32_t occupant) {
        if (occupant == Occupancy::kNobody) return true;
        State& state = states_[occupant];
        if (state.live) return false;
        if ((state.shared || plan_.slots()[occupant].stream != slot.stream) && state.seen != searches_) {
            state.seen = searches_;
            after_.push_back(occupant);
        }
        return true;
    });
}

void PlanFollower::miss(std::size_t bytes) noexcept {
    ++this_step_.misses;
    this_step_.missed_bytes += bytes;
}

}  // namespace headroom
