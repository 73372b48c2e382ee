#include <headroom/memory/buffer.hpp>

namespace headroom {

Buffer Buffer::allocate(DeviceMemory& memory, std::size_t bytes, StreamId stream, Tag tag) {
    const Allocation allocation = memory.allocate(bytes, stream, tag);
    auto* storage = new Storage;
    storage->data = allocation.data;
    storage->bytes = bytes;
    storage->memory = &memory;
    storage->block = allocation.handle;
    return Buffer(storage);
}

Buffer Buffer::wrap(void* data, std::size_t bytes, std::function<void()> deleter) {
    auto* storage = new Storage;
    storage->data = static_cast<std::byte*>(data);
    storage->bytes = bytes;
    storage->deleter = std::move(deleter);
    return Buffer(storage);
}

void Buffer::destroy(Storage* storage) noexcept {
    if (storage->memory) storage->memory->deallocate(storage->block);
    if (storage->deleter) storage->deleter();
    delete storage;
}

}  // namespace headroom
