#pragma once
// The allocator's numbers for streams and pools. A stream is a queue of work on one device that runs in order; the
// allocator does not know what the work is.
//
//     memory::Allocation block = memory.allocate(4096, /*stream=*/0, {});
#include <cstdint>

namespace headroom::memory {

/// 0 is the context's compute stream.
using StreamId = std::uint32_t;

/// A set of blocks that never mixes with those of other pools; 0 is the common pool.
using PoolId = std::uint32_t;

}  // namespace headroom::memory
