#include <headroom/memory/plan/plan.hpp>

#include <algorithm>

#include <headroom/memory/plan/occupancy.hpp>
#include <headroom/memory/plan/placement.hpp>

namespace headroom {

Plan::Plan(std::span<const RecordedRequest> requests) {
    std::vector<Lifetime> lifetimes;
    for (std::uint32_t i = 0; i < requests.size(); ++i) {
        const auto [bytes, stream, end] = requests[i];
        const bool planned = end != RecordedRequest::kOutlives && bytes > 0;
        add_to_track(stream, bytes, planned ? static_cast<std::uint32_t>(slots_.size()) : kNoSlot);
        if (!planned) continue;
        lifetimes.push_back({bytes, i, end});
        slots_.push_back({.offset = 0, .bytes = bytes, .stream = stream});
    }
    max_live_ = headroom::max_live(lifetimes);
    const Placement placement = place(lifetimes);
    height_ = placement.height;
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].offset = placement.offsets[i];
    cut_into_parts();
    mark_crossings();
}

void Plan::add_to_track(StreamId stream, std::size_t bytes, std::uint32_t slot) {
    auto track = std::find_if(tracks_.begin(), tracks_.end(), [&](const Track& t) { return t.stream == stream; });
    if (track == tracks_.end()) track = tracks_.insert(track, Track{.stream = stream, .bytes = {}, .slots = {}});
    track->bytes.push_back(bytes);
    track->slots.push_back(slot);
}

void Plan::cut_into_parts() {
    std::vector<std::size_t> cuts;
    for (const Slot& slot : slots_) {
        cuts.push_back(slot.offset);
        cuts.push_back(slot.offset + slot.bytes);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto part = [&](std::size_t cut) {
        return static_cast<std::uint32_t>(std::lower_bound(cuts.begin(), cuts.end(), cut) - cuts.begin());
    };
    for (Slot& slot : slots_) {
        slot.first_part = part(slot.offset);
        slot.last_part = part(slot.offset + slot.bytes);
    }
    parts_ = cuts.empty() ? 0 : static_cast<std::uint32_t>(cuts.size() - 1);
}

/// Goes through two steps, because the first slots of a step follow the last ones of the step before.
void Plan::mark_crossings() {
    Occupancy occupancy(parts_);
    for (int step = 0; step < 2; ++step) {
        for (std::uint32_t i = 0; i < slots_.size(); ++i) {
            const Slot& slot = slots_[i];
            occupancy.visit(slot.first_part, slot.last_part, [&](std::uint32_t before) {
                if (before != Occupancy::kNobody && slots_[before].stream != slot.stream) slots_[before].crosses = true;
                return true;
            });
            occupancy.take(slot.first_part, slot.last_part, i);
        }
    }
}

}  // namespace headroom
