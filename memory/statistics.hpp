#pragma once
// An allocator's statistics, in bytes. `allocated` is the sum of live blocks after rounding, `reserved` the memory
// taken from the driver. Peaks are since construction or the last `reset_peak()`.
//
//     const MemoryStatistics statistics = memory.statistics();
//     fmt::print("{} of {} bytes reserved are live\n", statistics.allocated, statistics.reserved);
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/stream_id.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom::memory {

struct MemoryStatistics {
    std::size_t allocated = 0;
    std::size_t peak_allocated = 0;
    std::size_t requested = 0;  ///< live bytes before rounding
    std::size_t reserved = 0;
    std::size_t peak_reserved = 0;
    std::uint64_t allocations = 0;       ///< successful calls of allocate
    std::uint64_t refusals = 0;          ///< calls of allocate that threw OutOfMemory
    std::uint64_t retries = 0;           ///< times that the handler of `on_out_of_memory` asked for another try
    std::uint64_t driver_calls = 0;      ///< pages created, mapped, unmapped, destroyed
    std::uint64_t synchronizations = 0;  ///< times that the host waited for the device
    std::array<std::size_t, kCategoryCount> allocated_by_category{};
    std::array<std::size_t, kCategoryCount> at_peak_by_category{};  ///< at the moment of peak_allocated

    bool operator==(const MemoryStatistics&) const = default;
};

/// State at the moment of `MemoryStatistics::peak_allocated`.
struct MemoryPeak {
    std::size_t allocated = 0;  ///< live bytes at that moment
    std::size_t reserved = 0;   ///< peak of reserved bytes, possibly at another moment
    std::string purpose;        ///< purpose of the request that caused the peak: "activations of blocks.3.mlp (gelu)"
    std::array<std::size_t, kCategoryCount> by_category{};           ///< live bytes at that moment
    std::vector<std::pair<std::string, std::size_t>> largest_paths;  ///< bytes live then, the ten largest, descending

    bool operator==(const MemoryPeak&) const = default;
};

/// The blocks of one pool.
struct PoolStatistics {
    PoolId pool = 0;
    bool open = false;  ///< a private pool that has not been closed
    std::size_t allocated = 0;
    std::size_t reserved = 0;  ///< in the pool's own pages; spare pages belong to no pool and are not counted

    bool operator==(const PoolStatistics&) const = default;
};

}  // namespace headroom::memory
