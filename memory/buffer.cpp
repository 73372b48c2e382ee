#include <headroom/memory/buffer.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include <headroom/memory/allocator/internal/block.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::memory {

namespace {

struct WrappedStorage : Storage {
    std::function<void()> deleter;
};

/// Of a block whose memory is gone.
std::string used_too_late(const Storage& storage) {
    return fmt::format("a buffer of {} bytes was used after its DeviceMemory was destroyed", storage.bytes);
}

}  // namespace

Buffer Buffer::allocate(DeviceMemory& memory, std::size_t bytes, StreamId stream, Tag tag, PoolId pool) {
    Block* block = memory.allocate(bytes, stream, tag, pool).handle;
    block->owners = 1;
    block->version = 0;
    return Buffer(block);
}

Buffer Buffer::wrap(void* data, std::size_t bytes, std::function<void()> deleter) {
    auto storage = std::make_unique<WrappedStorage>();
    storage->data = static_cast<std::byte*>(data);
    storage->bytes = bytes;
    storage->owners = 1;
    storage->wrapped = true;
    storage->deleter = std::move(deleter);
    return Buffer(storage.release());
}

void Buffer::record_use(StreamId stream) const {
    if (!storage_ || storage_->wrapped) return;
    if (!storage_->memory) throw Error(fmt::format("record_use: {}", used_too_late(*storage_)));
    storage_->memory->record_use(static_cast<Block*>(storage_), stream);
}

void Buffer::destroy(Storage* storage) noexcept {
    if (storage->memory) {
        storage->memory->deallocate(static_cast<Block*>(storage));
        return;
    }
    if (!storage->wrapped) {
        fmt::print(stderr, "headroom: {}\n", used_too_late(*storage));
        std::abort();
    }
    const std::unique_ptr<WrappedStorage> wrapped(static_cast<WrappedStorage*>(storage));
    if (wrapped->deleter) wrapped->deleter();
}

}  // namespace headroom::memory
