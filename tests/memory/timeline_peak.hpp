#pragma once
// A timeline looked at from outside: which of its blocks are live at a moment, and when the most bytes are.
//
//     const memory::Timeline timeline = memory::make_timeline(snapshot);
//     const TimelinePeak peak = peak_of(snapshot, timeline);
//     const std::vector<bool> live = live_after(snapshot, timeline, peak.events);   // by block
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <headroom/memory/history/internal/timeline.hpp>

namespace headroom::memory::test {

struct TimelinePeak {
    MemoryLevel level;
    std::size_t events = 0;  ///< how many have happened when so many bytes are live for the first time
};

inline TimelinePeak peak_of(const MemorySnapshot& snapshot, const Timeline& timeline) {
    TimelinePeak peak{.level = timeline.start};
    MemoryLevel level = timeline.start;
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
        level.apply(snapshot.events[i]);
        if (level.allocated() > peak.level.allocated()) peak = {.level = level, .events = i + 1};
    }
    return peak;
}

/// Whether each block is live after the first `events` events.
inline std::vector<bool> live_after(const MemorySnapshot& snapshot, const Timeline& timeline, std::size_t events) {
    std::vector<bool> live(timeline.blocks.size());
    std::fill_n(live.begin(), timeline.older_blocks, true);
    for (std::size_t i = 0; i < events; ++i) {
        const std::uint32_t block = timeline.block_of[i];
        if (block != Timeline::kNoBlock) live[block] = snapshot.events[i].kind == MemoryEvent::Kind::allocate;
    }
    return live;
}

}  // namespace headroom::memory::test
