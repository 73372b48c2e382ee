#pragma once
// Page-locked host memory, which a device copies from and to directly and while it computes. Freed blocks are kept for
// the next request, because locking pages takes a system call and stops the device. For staging buffers of copies on
// streams. Not for memory that only the host uses, nor for large amounts: the system can't page it out. Only tests use
// it so far; offloading activations to the host's memory will.
//
//     memory::PinnedPool pool(memory::make_cuda_driver({.streams = {compute, copies}}), {.limit = 1'000'000'000});
//     memory::PinnedBlock block = pool.allocate(batch_bytes);
//     std::memcpy(block.data(), batch, batch_bytes);
//     cuMemcpyHtoDAsync(device_address, block.data(), batch_bytes, copies);
//     block.record_use(1);        // the memory's next user gets it after this copy
#include <cstddef>
#include <cstdint>
#include <memory>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::memory {

struct PinnedPoolOptions {
    std::size_t limit = 0;  ///< bytes that may be page-locked, in use or not; 0: as many as the driver gives
};

/// All sizes are bytes of blocks, that is rounded up.
struct PinnedStatistics {
    std::size_t live = 0;     ///< in use
    std::size_t pending = 0;  ///< given back, but work queued on streams may still use it
    std::size_t cached = 0;   ///< free for the next request
    std::size_t peak_live = 0;
    std::size_t peak_held = 0;
    std::uint64_t allocations = 0;   ///< that succeeded
    std::uint64_t driver_calls = 0;  ///< that locked or unlocked memory

    std::size_t held() const { return live + pending + cached; }
    friend bool operator==(const PinnedStatistics&, const PinnedStatistics&) = default;
};

/// An owner of a piece of page-locked memory; movable. Its destructor gives the memory back, also after the pool is
/// gone. One thread at a time may use it.
class PinnedBlock {
  public:
    PinnedBlock() = default;
    ~PinnedBlock() { reset(); }
    PinnedBlock(PinnedBlock&& other) noexcept;
    PinnedBlock& operator=(PinnedBlock&& other) noexcept;

    std::byte* data() const noexcept;    ///< null if it holds none
    std::size_t bytes() const noexcept;  ///< as requested
    explicit operator bool() const noexcept { return pool_ != nullptr; }

    /// Records that work queued on the stream uses it. When the block is given back, an event is recorded on each such
    /// stream, or later where that fails or the stream is captured into a graph just then, and the memory serves others
    /// when all of them have passed. May be called any number of times, before or
    /// after queueing. Errors: Error if it holds no memory.
    void record_use(StreamId stream);
    /// Gives it back now. Never waits.
    void reset() noexcept;

  private:
    friend class PinnedPool;
    struct Record;
    class Shared;
    PinnedBlock(std::shared_ptr<Shared> pool, Record* record) noexcept;

    std::shared_ptr<Shared> pool_;
    Record* record_ = nullptr;
};

/// Thread-safe. Blocks are powers of two of at least 4 KiB, so that few sizes serve all requests; a request takes at
/// most twice its size. With a driver whose work is done when its call returns, streams don't matter.
class PinnedPool {
  public:
    /// The pool owns the driver, because a driver's calls about memory come one at a time, here under a lock of the
    /// pool. For a `DeviceMemory` on the same device make another driver with the same streams; on CUDA they share the
    /// context.
    explicit PinnedPool(std::unique_ptr<Driver> driver, PinnedPoolOptions options = {});
    /// Blocks in use stay valid; the memory and the driver go with the last one.
    ~PinnedPool();
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;

    /// At least `bytes` bytes, aligned to at least 64 (for 0, too); contents are indeterminate, and no stream uses it
    /// any more. Errors: OutOfMemory if live blocks leave no room for it below the limit, or the driver has none:
    /// cached blocks are given back to the driver before, and pending blocks waited for, one by one, until there is
    /// room. Meanwhile other callers get cached blocks, and wait if there is none for them. DeviceError.
    PinnedBlock allocate(std::size_t bytes);
    /// Gives all blocks that are not in use back to the driver and returns their bytes. Waits for work that may still
    /// use them. Errors: DeviceError.
    std::size_t trim();

    PinnedStatistics statistics() const;
    /// Sets both peaks to the present figures.
    void reset_peak();

  private:
    std::shared_ptr<PinnedBlock::Shared> shared_;
};

}  // namespace headroom::memory
