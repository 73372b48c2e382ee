#pragma once
// The caching allocator of one device, with a budget. It reserves an address range and commits pages as the range
// fills. Freed blocks are split and coalesced, and serve later requests without a driver call. All decisions depend on
// sizes and order alone, never on addresses, time or contents, so the same calls on a simulated driver give the same
// figures to the byte. Thread-safe; contexts on one device may share one.
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
    double fraction = 1;      ///< share of the device's memory that may be reserved, in (0, 1]
    std::size_t reserve = 0;  ///< bytes of the device left free for others, such as the driver and libraries
    /// Limit of fragmentation: reserved bytes may exceed the peak of live bytes by this share. Beyond that, unused
    /// pages are moved before new ones are taken; a move costs driver calls and waits for the device.
    double slack = 1.0 / 32;
    std::size_t history = 0;  ///< number of events to keep, as for `start_history`
    /// Names of the tag categories, for reports and histories; at most `kMaxCategories`, all different.
    std::vector<NamedCategory> categories = {};
    /// Writes the advice at the end of a report on a failed request. Must compute from the report alone, because the
    /// allocator is locked meanwhile. Empty: no advice.
    std::function<std::string(const MemoryReport&)> advise = headroom::memory::advise;
};

/// The allocator's record of a block; opaque.
struct Block;

struct Allocation {
    std::byte* data = nullptr;
    Block* handle = nullptr;
    /// Size of the block: the request rounded up to the driver's alignment, at least one unit.
    std::size_t bytes = 0;
};

class DeviceMemory {
  public:
    /// Errors: Error if `driver` is null or an option is out of range, which includes a limit below one page and a
    /// reserve that leaves less than a page; DeviceError.
    explicit DeviceMemory(std::unique_ptr<Driver> driver, MemoryOptions options = {});
    /// All blocks should have been deallocated. Any that are left are named on stderr, and their memory is returned to
    /// the driver; a `Buffer` that still refers to one reports an error when it is used or destroyed.
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    /// Returns a block of at least `bytes` bytes (0 gives one unit) for use on `stream`, with indeterminate contents.
    /// The stream waits for work that other streams still have queued on that memory. Errors: OutOfMemory if live pages
    /// plus the request exceed the limit or the device, even with all cached memory released; live blocks and their
    /// figures are unchanged. Error for an unknown path or pool or a category beyond `kNoCategory`; DeviceError for a
    /// stream number of 64 or more, or if the driver fails; std::bad_alloc.
    Allocation allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool = 0);
    /// Gives a block back in stream order. A later user on the same stream needs no synchronisation; another stream
    /// waits for the work that was queued before this call. Errors: Error that names the block if it was already given
    /// back or belongs to another allocator.
    void deallocate(Block* block);
    /// Records that work queued on `stream`, other than the block's own stream, uses the block; the next user waits for
    /// that work, too. Call it after queueing the work, any number of times. Only tests and replayed traces use it so
    /// far; offload to host memory will. Errors: as `deallocate`; DeviceError for a stream number of 64 or more.
    void record_use(Block* block, StreamId stream);

    /// Registers a stream that was created elsewhere (a CUstream on CUDA) and returns its number; the same stream
    /// always gets the same number. The stream must outlive this object. Errors: DeviceError if the driver has no such
    /// streams or 64 are registered already.
    StreamId adopt_stream(void* stream);

    /// Returns the number of a module path. The same string always gets the same number.
    PathId intern(std::string_view path);
    std::string path(PathId id) const;

    /// Opens a private pool for recorded graphs, whose addresses must stay valid. Its pages serve no other requests
    /// until it is closed.
    PoolId open_pool();
    /// Closes a private pool; its pages can be trimmed once its last block is given back. Errors: Error if no such pool
    /// is open.
    void close_pool(PoolId pool);

    MemoryStatistics statistics() const;
    /// Per pool, the common one first; a closed pool is listed while it still holds memory.
    std::vector<PoolStatistics> pool_statistics() const;
    /// Live bytes by module path, descending, at most `count`.
    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count = 10) const;
    /// All figures at the moment of `peak_allocated`, with at most `paths` module paths.
    MemoryPeak peak(std::size_t paths = 10) const;
    /// Resets both peaks to the current figures.
    void reset_peak();
    /// Returns every page without a live block to the driver, except pages of open private pools. Waits for work that
    /// may still use them. Returns the number of bytes released.
    std::size_t trim();

    /// Counts training steps for the history: call it at the start of each step. Events before the first call belong to
    /// the setup.
    void begin_step() noexcept;

    /// Records the last `events` events from now on, 56 bytes each; 0 stops recording and discards them. Errors:
    /// std::bad_alloc, std::length_error.
    void start_history(std::size_t events);
    bool keeps_history() const noexcept;
    /// Current blocks and figures, and the recorded events if a history is kept.
    MemorySnapshot snapshot() const;

    const DriverProperties& properties() const;
    /// The bytes that may be reserved, as set by the options or `set_limit`; 0 if nothing was set.
    std::size_t limit() const;
    /// Sets the handler that is called when a request is about to be refused. It runs in the requesting thread, without
    /// any lock; it may free memory, and returns whether to try again. A request that the handler itself makes does not
    /// call it again. A new handler replaces the old one; an empty one removes it. Its exceptions reach the caller of
    /// `allocate`.
    void on_out_of_memory(std::function<bool(const MemoryReport&)> handler);
    /// Changes the limit; 0 means no limit. Unused pages beyond it are released now (the host may wait for this),
    /// others as soon as a request finds them unused. While more than the limit is reserved, requests that need a new
    /// page are refused. Errors: Error if the limit is below one page (nothing changes); DeviceError or std::bad_alloc
    /// (the limit has changed).
    void set_limit(std::size_t bytes);
    /// As given to the constructor.
    const MemoryOptions& options() const;

  private:
    friend class MemoryScope;
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::memory
