#pragma once
// The level of a device's memory after each event, computed from a snapshot. The history keeps only the latest events,
// so the level before the first of them is found by going backwards from the current figures; the last level therefore
// always equals the snapshot's. For the file writers; current figures are in `MemorySnapshot` itself.
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
    /// Advances to the moment after `event`.
    void apply(const MemoryEvent& event);

    bool operator==(const MemoryLevel&) const = default;
};

/// A block that was live at some point of the history.
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
    std::vector<BlockLife> blocks;  ///< blocks older than the events first, by address; then in order of allocation
    std::size_t older_blocks = 0;   ///< number of blocks older than the events
    std::vector<std::uint32_t> block_of;  ///< per event: index into `blocks`; kNoBlock for page events
};

/// Linear in events and blocks. Inconsistent input gives figures clamped at zero, never an error.
Timeline make_timeline(const MemorySnapshot& snapshot);

/// The module path; "" for a number without a path in the snapshot.
std::string_view path_of(const MemorySnapshot& snapshot, PathId path);

}  // namespace headroom::memory
