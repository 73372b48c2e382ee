#pragma once
// The allocator's names for a stream, a queue of work on one device, done in the order in which it was queued, and for
// a set of blocks. The allocator does not know what the work is.
//
//     memory::Allocation block = memory.allocate(4096, /*stream=*/0, {});
#include <cstdint>

namespace headroom::memory {

/// 0 is a context's compute stream.
using StreamId = std::uint32_t;

/// A set of blocks that never mixes with others'; 0 is the common one.
using PoolId = std::uint32_t;

}  // namespace headroom::memory
