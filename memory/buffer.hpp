#pragma once
// A counted reference to memory of a device. Copies share, the last one gives the memory back. Counts are not atomic: a
// buffer stays in the thread of its context. A buffer can give its memory back by itself, so it can also wrap memory of
// another library.
//
//     Buffer buffer = Buffer::allocate(memory, 1024, 0, {});
//     auto* values = reinterpret_cast<float*>(buffer.data());
//     Buffer also = buffer;  // two owners now; buffer.unique() is false
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/internal/storage.hpp>

namespace headroom::memory {

class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer& other) noexcept : storage_(other.storage_) {
        if (storage_) ++storage_->owners;
    }
    Buffer(Buffer&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
    Buffer& operator=(Buffer other) noexcept {
        std::swap(storage_, other.storage_);
        return *this;
    }
    ~Buffer() { reset(); }

    /// A new block of at least `bytes` bytes. `memory` must outlive it: if it does not, the last owner of the buffer
    /// ends the program with a message that names the buffer. Errors: as `DeviceMemory::allocate`.
    static Buffer allocate(DeviceMemory& memory, std::size_t bytes, StreamId stream, Tag tag, PoolId pool = 0);
    /// Wraps memory that the caller owns; `deleter` (may be empty) is called once, when the last owner is gone. Only
    /// tests use it so far; DLPack will import arrays of other libraries with it. Errors: std::bad_alloc; the deleter
    /// has not been called then.
    static Buffer wrap(void* data, std::size_t bytes, std::function<void()> deleter);

    explicit operator bool() const noexcept { return storage_ != nullptr; }
    std::byte* data() const noexcept { return storage_ ? storage_->data : nullptr; }
    /// As requested, not as rounded.
    std::size_t bytes() const noexcept { return storage_ ? storage_->bytes : 0; }
    /// The allocator that it came from; null for wrapped memory.
    DeviceMemory* memory() const noexcept { return storage_ ? storage_->memory : nullptr; }
    /// Records that work queued on another stream uses the buffer; see `DeviceMemory::record_use`. Wrapped memory
    /// ignores it. Errors: Error if its memory is gone.
    void record_use(StreamId stream) const;
    bool unique() const noexcept { return storage_ && storage_->owners == 1; }
    bool same(const Buffer& other) const noexcept { return storage_ == other.storage_; }

    /// How often the contents have changed after the first use; backward checks this number for saved arrays.
    std::uint32_t version() const noexcept { return storage_ ? storage_->version : 0; }
    void bump_version() noexcept {
        if (storage_) ++storage_->version;
    }

    void reset() noexcept {
        if (storage_ && --storage_->owners == 0) destroy(storage_);
        storage_ = nullptr;
    }

  private:
    explicit Buffer(Storage* storage) : storage_(storage) {}
    static void destroy(Storage* storage) noexcept;  // out of line: GCC 12 warns falsely of use after free otherwise

    Storage* storage_ = nullptr;
};

}  // namespace headroom::memory
