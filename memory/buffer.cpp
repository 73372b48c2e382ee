#include <headroom/memory/buffer.hpp>

#include <headroom/memory/allocator/block.hpp>

namespace headroom {

namespace {

struct WrappedStorage : Storage {
    std::function<void()> deleter;
};

}  // namespace

Buffer Buffer::allocate(DeviceMemory& memory, std::size_t bytes, StreamId stream, Tag tag) {
    Block* block = memory.allocate(bytes, stream, tag).handle;
    block->owners = 1;
    block->version = 0;
    return Buffer(block);
}

Buffer Buffer::wrap(void* data, std::size_t bytes, std::function<void()> deleter) {
    auto storage = std::make_unique<WrappedStorage>();
    storage->data = static_cast<std::byte*>(data);
    storage->bytes = bytes;
    storage->owners = 1;
    storage->deleter = std::move(deleter);
    return Buffer(storage.release());
}

void Buffer::destroy(Storage* storage) noexcept {
    if (storage->memory) {
        storage->memory->deallocate(static_cast<Block*>(storage));
        return;
    }
    const std::unique_ptr<WrappedStorage> wrapped(static_cast<WrappedStorage*>(storage));
    if (wrapped->deleter) wrapped->deleter();
}

}  // namespace headroom
