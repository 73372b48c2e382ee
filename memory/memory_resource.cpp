#include <headroom/memory/memory_resource.hpp>

#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {

MemoryResource::MemoryResource(DeviceMemory& memory, Tag tag, StreamId stream)
    : memory_(memory), tag_(tag), stream_(stream) {
    if (memory.properties().touchable) return;
    throw Error(fmt::format("MemoryResource: the host can't access the memory of {}; use one on make_host_driver()",
                            memory.properties().name));
}

void* MemoryResource::do_allocate(std::size_t bytes, std::size_t alignment) {
    // In front of what is handed out lies the block's record, for giving it back.
    const std::size_t front = sizeof(Block*) + alignment;
    constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
    const Allocation block = memory_.allocate(bytes > kMost - front ? kMost : bytes + front, stream_, tag_);
    const auto begin = reinterpret_cast<std::uintptr_t>(block.data) + sizeof(Block*);
    std::byte* const data = block.data + sizeof(Block*) + (alignment - begin % alignment) % alignment;
    std::memcpy(data - sizeof(Block*), &block.handle, sizeof(Block*));
    return data;
}

void MemoryResource::do_deallocate(void* data, std::size_t, std::size_t) {
    Block* block = nullptr;
    std::memcpy(&block, static_cast<std::byte*>(data) - sizeof(Block*), sizeof(Block*));
    memory_.deallocate(block);
}

bool MemoryResource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
    const auto* const resource = dynamic_cast<const MemoryResource*>(&other);
    return resource && &resource->memory_ == &memory_;
}

}  // namespace headroom::memory
