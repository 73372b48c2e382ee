#pragma once
// A reference-counted block of device memory. Copies share it; the last owner frees it. The count is not atomic: a
// buffer stays in the thread of its context. A buffer carries its own deleter, so it can also wrap another library's
// memory.
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
#include <headroom/memory/storage.hpp>

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

    /// Allocates at least `bytes` bytes. `memory` must outlive the buffer: otherwise the last owner ends the program
    /// with a message that names the buffer. Errors: as `DeviceMemory::allocate`.
    static Buffer allocate(DeviceMemory& memory, std::size_t bytes, StreamId stream, Tag tag, PoolId pool = 0);
    /// Wraps memory that the caller owns. `deleter` (may be empty) is called once, when the last owner is gone. Only
    /// tests use it so far; DLPack will import other libraries' arrays with it. Errors: std::bad_alloc, without a call
    /// of the deleter.
    static Buffer wrap(void* data, std::size_t bytes, std::function<void()> deleter);

    explicit operator bool() const noexcept { return storage_ != nullptr; }
    std::byte* data() const noexcept { return storage_ ? storage_->data : nullptr; }
    /// The requested size, before rounding.
    std::size_t bytes() const noexcept { return storage_ ? storage_->bytes : 0; }
    /// The allocator it came from; null for wrapped memory.
    DeviceMemory* memory() const noexcept { return storage_ ? storage_->memory : nullptr; }
    /// Records that work queued on another stream uses the buffer; see `DeviceMemory::record_use`. No effect on wrapped
    /// memory. Errors: Error if the allocator is gone.
    void record_use(StreamId stream) const;
    bool unique() const noexcept { return storage_ && storage_->owners == 1; }
    bool same(const Buffer& other) const noexcept { return storage_ == other.storage_; }

    /// Number of changes after the first use; backward compares it for saved arrays.
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
    static void destroy(Storage* storage) noexcept;  // out of line: GCC 12 would falsely warn of a use after free

    Storage* storage_ = nullptr;
};

}  // namespace headroom::memory
