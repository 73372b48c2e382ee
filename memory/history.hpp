#pragma once
// The events of a device's memory and its present blocks: the data of reports and timelines. `DeviceMemory` keeps the
// last events after `start_history`, and describes itself at any time by `snapshot`; functions that write files from
// that are in memory/history/.
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
    /// Blocks are allocated and freed, pages mapped and unmapped. `out_of_memory` is a request that failed.
    enum class Kind : std::uint8_t { allocate, free, map, unmap, out_of_memory };

    std::uint64_t time = 0;      ///< nanoseconds of a steady clock
    std::uintptr_t address = 0;  ///< 0 for a request that failed
    std::size_t bytes = 0;       ///< as handed out
    std::size_t requested = 0;   ///< by the caller; equals `bytes` for pages
    std::uint32_t step = 0;      ///< calls of `begin_step` before; 0 is what is set up before the first step
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

/// A longest stretch of mapped addresses of one pool.
struct Segment {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    PoolId pool = 0;
};

/// All sizes in bytes.
struct MemorySnapshot {
    std::string device;
    std::size_t limit = 0;        ///< the bytes that may be reserved: the budget, in whole pages
    std::size_t asked_limit = 0;  ///< the limit that was set; 0 if none was
    std::size_t page_bytes = 0;
    std::uint64_t time = 0;  ///< nanoseconds of the clock of the events
    MemoryStatistics statistics;
    std::vector<std::string> paths;         ///< by PathId
    std::vector<NamedCategory> categories;  ///< by CategoryId; further ones have no name
    std::vector<Segment> segments;          ///< by address
    std::vector<BlockInfo> blocks;          ///< by address; they tile the segments
    std::vector<MemoryEvent> events;        ///< the last ones, oldest first
    std::uint64_t events_dropped = 0;       ///< older ones, for which there was no room
};

}  // namespace headroom::memory
