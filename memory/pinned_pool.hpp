#pragma once
// Page-locked host memory that a device copies from and to directly, while it computes. Use it for staging buffers of
// copies on streams. Freed blocks are cached, because locking pages takes a system call and stalls the device. Not for
// memory that only the host uses, nor for large amounts: the system can't page it out. Only tests use it so far;
// offloading activations to host memory will.
//
//     memory::PinnedPool pool(memory::make_cuda_driver({.streams = {compute, copies}}), {.limit = 1'000'000'000});
//     memory::PinnedBlock block = pool.allocate(batch_bytes);
//     std::memcpy(block.data(), batch, batch_bytes);
//     cuMemcpyHtoDAsync(device_address, block.data(), batch_bytes, copies);
//     block.record_use(1);        // the memory is reused only after this copy
#include <cstddef>
#include <cstdint>
#include <memory>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::memory {

struct PinnedPoolOptions {
    std::size_t limit = 0;  ///< bytes that may be page-locked, in use or not; 0: whatever the driver grants
};

/// Bytes of blocks, after rounding up.
struct PinnedStatistics {
    std::size_t live = 0;     ///< in use
    std::size_t pending = 0;  ///< freed, but work queued on streams may still use it
    std::size_t cached = 0;   ///< free, kept for the next request
    std::size_t peak_live = 0;
    std::size_t peak_held = 0;
    std::uint64_t allocations = 0;   ///< successful ones
    std::uint64_t driver_calls = 0;  ///< calls that locked or unlocked memory

    std::size_t held() const { return live + pending + cached; }
    friend bool operator==(const PinnedStatistics&, const PinnedStatistics&) = default;
};

/// Owns a piece of page-locked memory; movable. The destructor frees it, even after the pool is gone. Not thread-safe.
class PinnedBlock {
  public:
    PinnedBlock() = default;
    ~PinnedBlock() { reset(); }
    PinnedBlock(PinnedBlock&& other) noexcept;
    PinnedBlock& operator=(PinnedBlock&& other) noexcept;

    std::byte* data() const noexcept;    ///< null if empty
    std::size_t bytes() const noexcept;  ///< as requested, before rounding
    explicit operator bool() const noexcept { return pool_ != nullptr; }

    /// Records that work queued on `stream` uses the block. Freeing the block records an event on each such stream, or
    /// later if that fails or the stream is being captured into a graph; the memory is reused once all these events
    /// have passed. May be called any number of times, before or after queueing. Errors: Error if the block is empty.
    void record_use(StreamId stream);
    /// Frees the block now. Never waits.
    void reset() noexcept;

  private:
    friend class PinnedPool;
    struct Record;
    class Shared;
    PinnedBlock(std::shared_ptr<Shared> pool, Record* record) noexcept;

    std::shared_ptr<Shared> pool_;
    Record* record_ = nullptr;
};

/// Thread-safe. Block sizes are powers of two of at least 4 KiB, so that few sizes serve all requests; a block is at
/// most twice its request. Streams don't matter with a driver whose calls return when the work is done.
class PinnedPool {
  public:
    /// The pool owns the driver, because the memory calls of a driver must come one at a time and the pool serialises
    /// them with its own lock. For a `DeviceMemory` on the same device, create another driver with the same streams; on
    /// CUDA they share the context.
    explicit PinnedPool(std::unique_ptr<Driver> driver, PinnedPoolOptions options = {});
    /// Blocks in use stay valid; the memory and the driver live until the last block is freed.
    ~PinnedPool();
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;

    /// Allocates at least `bytes` bytes, aligned to at least 64 (also for 0). Contents are indeterminate, and no stream
    /// uses the memory any more. If there is no room, it first returns cached blocks to the driver and then waits for
    /// pending ones, one by one; meanwhile other callers are served from cached blocks, or wait. Errors: OutOfMemory if
    /// live blocks leave too little below the limit or the driver has no memory; DeviceError.
    PinnedBlock allocate(std::size_t bytes);
    /// Returns all unused blocks to the driver. Waits for work that may still use them. Returns the number of bytes
    /// released. Errors: DeviceError.
    std::size_t trim();

    PinnedStatistics statistics() const;
    /// Resets both peaks to the current figures.
    void reset_peak();

  private:
    std::shared_ptr<PinnedBlock::Shared> shared_;
};

}  // namespace headroom::memory
