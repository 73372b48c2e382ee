#pragma once
// The caching allocator of one device and its budget. Blocks come from a reserved address range whose pages are
// committed as the range fills; a freed block is split and coalesced, and serves the next request without a call to
// the driver. All decisions depend on sizes and order alone, never on addresses, time or contents: the same calls on
// a simulated driver give the same figures to the byte. Thread-safe; contexts on one device may share one.
//
//     const memory::MemoryOptions options{.limit = 2'000'000'000};
//     auto memory = std::make_shared<DeviceMemory>(memory::make_host_driver(), options);
//     memory::Allocation block = memory->allocate(4096, 0, {.path = memory->intern("cache")});
//     memory->deallocate(block.handle);
//     fmt::print("{}\n", memory->statistics().peak_allocated);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/memory/driver.hpp>
#include <headroom/memory/history.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/memory/statistics.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom::memory {

struct MemoryOptions {
    std::size_t limit = 0;    ///< bytes that may be reserved, rounded down to whole pages; 0: `fraction` of the device
    double fraction = 1;      ///< of the device's memory; in (0, 1]
    std::size_t reserve = 0;  ///< bytes of the device that are left to others, such as its driver and libraries
    /// The share of the peak of live bytes that may be reserved beyond it. Beyond that, unused pages are moved instead
    /// of new ones taken; moving costs driver calls and waits for the device.
    double slack = 1.0 / 32;
    std::size_t history = 0;  ///< as `start_history`
    /// The names of the categories of tags, for reports and histories: at most `kMaxCategories` different ones.
    std::vector<NamedCategory> categories = {};
    /// Writes the end of a report: advice on a request that does not fit. It must compute from the report alone, since
    /// the memory waits for it; without this function there is no advice.
    std::function<std::string(const MemoryReport&)> advise = headroom::memory::advise;
};

/// The allocator's record of a block; opaque.
struct Block;

struct Allocation {
    std::byte* data = nullptr;
    Block* handle = nullptr;
    std::size_t bytes = 0;  ///< as handed out: the request rounded up to the driver's alignment, at least one unit
};

class DeviceMemory {
  public:
    /// Errors: Error if there is no driver, or an option out of range (a limit of less than a page is, and a reserve
    /// that leaves none); DeviceError.
    explicit DeviceMemory(std::unique_ptr<Driver> driver, MemoryOptions options = {});
    /// All blocks should have been given back. Blocks that are left are named on stderr, and their memory is returned
    /// to the driver; a `Buffer` that still refers to one reports that when it is used or destroyed.
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    /// At least `bytes` bytes (0 gives one unit) for use on `stream`; contents are indeterminate. The stream waits for
    /// the work that other streams still do there. Errors: OutOfMemory if live pages and the request exceed the limit
    /// or the device, all cached memory included; live blocks and their figures are then as before. Error for an
    /// unknown path or pool, or a category beyond `kNoCategory`, DeviceError for a stream from 64 on or if the driver
    /// fails, std::bad_alloc.
    Allocation allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool = 0);
    /// Gives a block back in stream order: its next user on the same stream needs no synchronisation, another stream
    /// waits for the work that was queued when the block was given back. Errors: Error that names the block if it was
    /// given back before or is not of this memory.
    void deallocate(Block* block);
    /// Records that work queued on `stream`, another one than the block's, uses the block: its next user waits for that
    /// work, too. Call it after queueing the work, any number of times. Only tests and replayed traces use it so far;
    /// offload to the host's memory will. Errors: as `deallocate`; DeviceError for a stream from 64 on.
    void record_use(Block* block, StreamId stream);

    /// The number of a stream that was made elsewhere (on CUDA a CUstream), which must live as long as this object; the
    /// same one again for the same stream. Errors: DeviceError if the driver has no such streams, or there are 64.
    StreamId adopt_stream(void* stream);

    /// The number of a module path. The same string has the same number for ever.
    PathId intern(std::string_view path);
    std::string path(PathId id) const;

    /// Opens a private pool, for recorded graphs, whose addresses must stay: its pages serve no other requests until it
    /// is closed.
    PoolId open_pool();
    /// Closes it; its pages may be trimmed when its last block is given back. Errors: Error if there is no such open
    /// pool.
    void close_pool(PoolId pool);

    MemoryStatistics statistics() const;
    /// By pool, the common one first; closed pools are listed as long as they have memory.
    std::vector<PoolStatistics> pool_statistics() const;
    /// Live bytes by module path, descending, at most `count`.
    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count = 10) const;
    /// All figures at the moment of `peak_allocated`, with at most `paths` module paths.
    MemoryPeak peak(std::size_t paths = 10) const;
    /// Sets both peaks to the present figures.
    void reset_peak();
    /// Gives every page without a live block back to the driver, except for those of open private pools, and returns
    /// their bytes. Waits for work that may still use them.
    std::size_t trim();

    /// Counts training steps, for the history: call it when one begins. What comes before the first one is set up.
    void begin_step() noexcept;

    /// Keeps the last `events` events from now on, 56 bytes each; 0 stops and forgets. Errors: std::bad_alloc,
    /// std::length_error.
    void start_history(std::size_t events);
    bool keeps_history() const noexcept;
    /// The present blocks and figures and, if a history is kept, the events that led to them.
    MemorySnapshot snapshot() const;

    const DriverProperties& properties() const;
    /// The bytes that may be reserved, as set by the options or `set_limit`; 0 if nothing was set.
    std::size_t limit() const;
    /// Calls `handler` for a request that would be refused, in the thread of the request and without any lock: it may
    /// give memory back, and answers whether to try again. A refused request of the handler itself does not call it. A
    /// new handler replaces the old one; an empty one removes it. Its exceptions reach the request's caller.
    void on_out_of_memory(std::function<bool(const MemoryReport&)> handler);
    /// Changes the limit; 0 is no limit. Unused pages beyond it are given back now (the host may wait for that), and
    /// others when requests find them unused. While more than the limit is reserved, no request that needs a new page
    /// is granted. Errors: Error for less than a page; nothing is changed. DeviceError, std::bad_alloc; the limit is
    /// changed.
    void set_limit(std::size_t bytes);
    /// As given to the constructor.
    const MemoryOptions& options() const;

  private:
    friend class MemoryScope;
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::memory
