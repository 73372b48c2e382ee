#pragma once
// Memory events of a device and its current blocks: the data behind reports and timelines. `DeviceMemory` records the
// latest events after `start_history`; `snapshot` works at any time. Functions that write a snapshot to a file are in
// memory/history/.
//
//     memory.start_history(1'000'000);
//     train(context);
//     const memory::MemorySnapshot snapshot = memory.snapshot();
//     fmt::print("{} events, {} blocks\n", snapshot.events.size(), snapshot.blocks.size());
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/memory/statistics.hpp>
#include <headroom/memory/stream_id.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom::memory {

struct MemoryEvent {
    /// Blocks are allocated and freed, pages mapped and unmapped; `out_of_memory` is a failed request.
    enum class Kind : std::uint8_t { allocate, free, map, unmap, out_of_memory };

    std::uint64_t time = 0;      ///< nanoseconds of a steady clock
    std::uintptr_t address = 0;  ///< 0 for a failed request
    std::size_t bytes = 0;       ///< size of the block
    std::size_t requested = 0;   ///< bytes the caller asked for; equals `bytes` for pages
    std::uint32_t step = 0;      ///< calls of `begin_step` so far; 0: setup, before the first step
    PathId path = 0;
    PathId op = 0;
    StreamId stream = 0;
    PoolId pool = 0;
    Kind kind = Kind::allocate;
    CategoryId category = kNoCategory;
};

/// A piece of mapped address space.
struct BlockInfo {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t requested = 0;  ///< 0 if not live
    StreamId stream = 0;
    PoolId pool = 0;
    bool live = false;
    Tag tag{};  ///< of a live block
};

/// A maximal run of mapped addresses in one pool.
struct Segment {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    PoolId pool = 0;
};

/// All sizes in bytes.
struct MemorySnapshot {
    std::string device;
    std::size_t limit = 0;        ///< the budget: bytes that may be reserved, in whole pages
    std::size_t asked_limit = 0;  ///< the limit as set; 0 if none was set
    std::size_t page_bytes = 0;
    std::uint64_t time = 0;  ///< nanoseconds, on the clock of the events
    MemoryStatistics statistics;
    std::vector<std::string> paths;         ///< by PathId
    std::vector<NamedCategory> categories;  ///< by CategoryId; later ids have no name
    std::vector<Segment> segments;          ///< sorted by address
    std::vector<BlockInfo> blocks;          ///< sorted by address; together they cover the segments
    std::vector<MemoryEvent> events;        ///< the most recent ones, oldest first
    std::uint64_t events_dropped = 0;       ///< older events that no longer fit
};

}  // namespace headroom::memory
