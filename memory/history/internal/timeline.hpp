#pragma once
// The level of a device's memory after each event, worked out from a snapshot. The history keeps only the last
// events, so the level before the first of them is found by going backwards from the present figures: the last level
// is always the one that the snapshot states. For the writers of files; present figures are in `MemorySnapshot`
// itself.
//
//     const memory::Timeline timeline = memory::make_timeline(snapshot);
//     memory::MemoryLevel level = timeline.start;
//     for (const memory::MemoryEvent& event : snapshot.events) level.apply(event);
//     fmt::print("{} bytes are live\n", level.allocated());
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <headroom/memory/history.hpp>

namespace headroom::memory {

/// Bytes at one moment.
struct MemoryLevel {
    std::array<std::size_t, kCategoryCount> live{};
    std::size_t reserved = 0;

    std::size_t allocated() const;
    /// To the moment after `event`.
    void apply(const MemoryEvent& event);

    bool operator==(const MemoryLevel&) const = default;
};

/// A block that was live at some time of the history.
struct BlockLife {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t requested = 0;
    Tag tag{};
    StreamId stream = 0;
};

struct Timeline {
    static constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

    MemoryLevel start;              ///< before the first event
    std::vector<BlockLife> blocks;  ///< those older than the events first, by address; then in order of allocation
    std::size_t older_blocks = 0;   ///< the number of blocks that are older than the events
    std::vector<std::uint32_t> block_of;  ///< of each event: index into `blocks`; kNoBlock for events of pages
};

/// Linear in events and blocks. Contradictory input gives figures cut off at zero, never an error.
Timeline make_timeline(const MemorySnapshot& snapshot);

/// The module path; "" for a number that the snapshot has no path for.
std::string_view path_of(const MemorySnapshot& snapshot, PathId path);

}  // namespace headroom::memory
