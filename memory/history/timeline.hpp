#pragma once
// How a device's memory stood from event to event, worked out from a snapshot. The history keeps only the last events,
// so the level before the first of them is found by going backwards from the present figures: the last level is always
// the one that the snapshot states. What the writers of files share; not for figures of the present, which are in
// `MemorySnapshot` itself.
//
//     const Timeline timeline = make_timeline(snapshot);
//     MemoryLevel level = timeline.start;
//     for (const MemoryEvent& event : snapshot.events) level.apply(event);
//     fmt::print("{} bytes now, {} at the peak\n", level.allocated(), timeline.peak.allocated());
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <headroom/memory/history.hpp>

namespace headroom {

/// Bytes at one moment.
struct MemoryLevel {
    std::array<std::size_t, kCategoryCount> live{};
    std::size_t reserved = 0;

    std::size_t allocated() const;
    /// To the moment after `event`.
    void apply(const MemoryEvent& event);

    bool operator==(const MemoryLevel&) const = default;
};

/// A block from its allocation to its end.
struct BlockLife {
    static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t requested = 0;
    std::size_t begin = kUnknown;  ///< index of its event of allocation; kUnknown: before the first event that was kept
    std::size_t end = kUnknown;    ///< index of the event that gave it back; kUnknown: it is live
    Tag tag{};
    StreamId stream = 0;
    PoolId pool = 0;
};

struct Timeline {
    static constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

    MemoryLevel start;              ///< before the first event
    MemoryLevel peak;               ///< when the most bytes were live, the first time that they were
    std::size_t peak_events = 0;    ///< how many events had happened then
    std::vector<BlockLife> blocks;  ///< those older than the events first, by address; then in order of allocation
    std::size_t older_blocks = 0;   ///< how many are older than the events
    std::vector<std::uint32_t> block_of;  ///< of each event: index into `blocks`; kNoBlock for events of pages
};

/// Linear in events and blocks. Contradictory input gives figures cut off at zero, never an error.
Timeline make_timeline(const MemorySnapshot& snapshot);

/// The module path; "" for a number that the snapshot has no path for.
std::string_view path_of(const MemorySnapshot& snapshot, PathId path);

}  // namespace headroom
