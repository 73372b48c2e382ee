#pragma once
// The memory behind a `Buffer` and its number of owners. It is part of the allocator's record of a block, so that a
// buffer costs no allocation besides its memory. Users hold a `Buffer`.
//
//     memory::Storage* storage = ...;              // inside a block, or of wrapped memory
//     if (storage->owners == 1) ...        // no other owner would see a change of contents
#include <cstddef>
#include <cstdint>

#include <headroom/memory/stream_id.hpp>

namespace headroom::memory {

class DeviceMemory;

struct Storage {
    std::byte* data = nullptr;
    std::size_t bytes = 0;           ///< as requested, before rounding
    DeviceMemory* memory = nullptr;  ///< frees the block; null for wrapped memory, and once the allocator is gone
    std::uint32_t owners = 0;
    std::uint32_t version = 0;
    StreamId stream = 0;
    bool wrapped = false;  ///< memory that the caller of `wrap` owns
};

}  // namespace headroom::memory
