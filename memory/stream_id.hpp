#pragma once
// The allocator's name for a stream: a queue of work on one device, whose work is done in the order in which it was
// given. What the stream does is the caller's business.
//
//     memory::Allocation block = memory.allocate(4096, /*stream=*/0, {Category::activations, 0});
#include <cstdint>

namespace headroom::memory {

/// 0 is a context's compute stream.
using StreamId = std::uint32_t;

}  // namespace headroom::memory
