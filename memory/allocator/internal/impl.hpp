#pragma once
// Puts the parts of `DeviceMemory` together. A request tries in turn: the stream's quick cache (allocate.cpp); free
// blocks of its size class, the stream's own first; and holes filled with spare, new or moved pages (grow.cpp).
// inspect.cpp counts and reports.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <headroom/memory/allocator/internal/arena.hpp>
#include <headroom/memory/allocator/internal/path_table.hpp>
#include <headroom/memory/allocator/internal/peaks.hpp>
#include <headroom/memory/allocator/internal/pool.hpp>
#include <headroom/memory/allocator/internal/shard.hpp>
#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/history/internal/ring.hpp>

namespace headroom::memory {

class DeviceMemory::Impl {
  public:
    Impl(DeviceMemory* self, std::unique_ptr<Driver> driver, MemoryOptions options);
    ~Impl();

    Allocation allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool);
    void deallocate(Block* block);
    void record_use(Block* block, StreamId stream);

    PathId intern(std::string_view path);
    std::string path(PathId id) const;
    PoolId open_pool();
    void close_pool(PoolId pool);
    void begin_step() noexcept { step_.fetch_add(1, std::memory_order_relaxed); }

    MemoryStatistics statistics() const;
    std::vector<PoolStatistics> pool_statistics() const;
    StreamId adopt_stream(void* stream) { return driver_->adopt(stream); }
    void on_out_of_memory(std::function<bool(const MemoryReport&)> handler);
    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count, bool at_peak) const;
    MemoryPeak peak(std::size_t paths) const;
    void reset_peak();
    std::size_t trim();
    void start_history(std::size_t events);
    bool keeps_history() const noexcept { return keeps_history_.load(std::memory_order_relaxed); }
    MemorySnapshot snapshot() const;
    /// Returns the mark and the live bytes.
    std::pair<std::uint32_t, std::size_t> open_mark();
    void close_mark(std::uint32_t mark) noexcept;
    std::size_t mark(std::uint32_t mark) const;
    std::size_t live() const;

    const DriverProperties& properties() const { return properties_; }
    std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
    void set_limit(std::size_t bytes);
    const MemoryOptions& options() const { return options_; }

  private:
    using Lock = std::lock_guard<SpinLock>;
    using SlowLock = std::lock_guard<std::mutex>;
    /// A request that the quick cache could not serve.
    struct Request {
        std::size_t bytes;
        std::size_t size;
        StreamId stream;
        Tag tag;
        PoolId pool;
    };
    /// Locks all shards. The caller must hold `lock_`.
    class AllShards;
    class HeldEvent;
    struct MustWait;
    template <class Work>
    auto locked(Work&& work);

    std::size_t rounded(std::size_t bytes) const noexcept {
        return bytes ? (bytes + alignment_ - 1) & ~(alignment_ - 1) : alignment_;
    }

    // allocate.cpp
    Allocation hand_out(Block* block, std::size_t bytes, Tag tag, Shard& shard) noexcept;
    Allocation allocate_slowly(const Request& request);
    Allocation allocate_locked(const Request& request);
    void check(const Request& request) const;
    Shard& shard_for(StreamId stream);
    Block* obtain(const Request& request, Pool& pool, Shard& shard);
    bool apart(const Request& request) const;
    /// A free block or null; in all ranges where the request may lie, or in those of one class.
    Block* find(const Pool& pool, const Request& request) const;
    Block* find(const Pool& pool, Pool::SizeClass size_class, const Request& request) const;
    /// Asks the handler; returns false, and counts the refusal, if the request is refused for good.
    bool try_again(const Request& request, const MemoryReport& report);
    void deallocate_slowly(Block* block);
    void return_slowly(Block* block);
    void account_free(Block* block, Shard& shard) noexcept;
    void return_to_arena(Block* block, Shard& shard) noexcept;
    /// Removes a closed pool without blocks. Takes `lock_` itself.
    void end_pool(PoolId pool) noexcept;
    void check_live(const Block* block, const char* call) const;
    std::string name_of(const Block& block) const;
    void note(MemoryEvent::Kind kind, const Block& block) noexcept;

    // Streams; the caller must hold `lock_`.
    void wait_for_others(const PendingSet& pending, Shard& shard);
    /// Whether the stream (kMaxStreams: the host) can wait for the work.
    bool can_wait(const PendingSet& pending, StreamId stream) const;
    void drain(Shard& shard);
    void drain_all();
    // The caller must hold the locks of all shards, too.
    void drain_locked(Shard& shard);
    void raise_peak(Tag tag) noexcept;
    void share_quota() noexcept;

    // grow.cpp; the caller must hold `lock_`.
    /// A free block for the request; null if there are too few pages for one.
    Block* make_room(Pool& pool, const Request& request);
    std::unique_ptr<Arena> make_range(PoolId pool, Pool::SizeClass size_class);
    /// Adds pages where they make a free block for the request; false if there are too few.
    bool grow(Pool& pool, Pool::SizeClass size_class, const Request& request);
    /// The same, in this address range only.
    bool grow_range(Arena& arena, const Request& request);
    std::size_t all_pages(std::size_t fresh);
    std::size_t trim_locked();
    /// The same, with at most `fresh` new pages.
    bool grow_by(std::size_t fresh, Arena& arena, const Request& request);
    /// Moves up to `count` pages from free blocks into the supply, except those that `kept`, a place in `wanting`,
    /// relies on.
    void gather(std::size_t count, const Arena* wanting, const Arena::Extension* kept);
    /// Number of pages that may be created before unused ones are moved.
    std::size_t pages_within_slack(std::size_t size) const;
    /// Releases unused pages above a lowered limit.
    void give_up_excess();
    /// Throws MustWait if the host has not waited for this yet.
    void synchronize(const PendingSet& pending);
    /// The arenas whose free pages may be moved away.
    std::vector<Arena*> movable_arenas();
    bool may_move(const Arena& arena) const { return arena.pool() == 0 || !pools_.at(arena.pool()).open; }
    /// Visits the common pool first.
    template <class Visit>
    void for_each_pool(Visit&& visit) const {
        visit(common_);
        for (const auto& [id, pool] : pools_) visit(pool);
    }

    // inspect.cpp
    /// The budget: whole granules within both the limit and the device.
    static std::size_t budget_of(const DriverProperties& properties, std::size_t limit, std::size_t reserve);
    // The caller must hold `lock_` and the locks of all shards.
    std::size_t live_unlocked() const noexcept;
    MemoryStatistics statistics_unlocked() const;
    std::vector<std::pair<std::string, std::size_t>> largest_paths_unlocked(std::size_t count, bool at_peak) const;
    void describe(const Arena& arena, MemorySnapshot& snapshot) const;
    // The caller must hold `lock_`.
    MemoryReport report(const Request& request, const Pool& pool);
    void count_free(StreamId stream, MemoryReport& report);
    void count_obtainable(const Request& request, const Pool& pool, MemoryReport& report);

    DeviceMemory* const self_;
    mutable std::mutex lock_;  ///< held during driver calls, never while waiting for the device; a hit does not take it
    std::unique_ptr<Driver> driver_;
    const DriverProperties properties_;
    const std::size_t alignment_;
    const MemoryOptions options_;
    std::atomic<std::size_t> limit_;
    std::size_t range_bytes_;  ///< address space of the last range, in whole pages
    std::uint64_t synchronizations_ = 0;
    std::uint64_t refusals_ = 0;
    std::uint64_t retries_ = 0;
    std::function<bool(const MemoryReport&)> handler_;
    std::vector<std::thread::id> handling_;  ///< threads in the handler
    PathTable paths_;
    Peaks peaks_;
    Tag peak_tag_;  ///< purpose of the request that caused the highest peak
    BlockPool blocks_;
    PageSupply supply_;
    std::array<std::atomic<Shard*>, Arena::kMaxStreams> shards_{};
    std::vector<std::unique_ptr<Shard>> shard_list_;  ///< in the order of their first use
    Pool common_;
    std::map<PoolId, Pool> pools_;  ///< private pools; ordered, so that decisions are deterministic
    PoolId last_pool_ = 0;
    std::atomic<std::uint32_t> step_{0};
    std::unique_ptr<HistoryRing> history_;  ///< replaced only while all shards are locked
    std::atomic<bool> keeps_history_{false};
};

class DeviceMemory::Impl::AllShards {
  public:
    explicit AllShards(const Impl& impl) : impl_(impl) {
        for (const auto& shard : impl_.shard_list_) shard->lock.lock();
    }
    ~AllShards() {
        for (const auto& shard : impl_.shard_list_) shard->lock.unlock();
    }
    AllShards(const AllShards&) = delete;
    AllShards& operator=(const AllShards&) = delete;

  private:
    const Impl& impl_;
};

/// Keeps an event of a stream alive.
class DeviceMemory::Impl::HeldEvent {
  public:
    /// Errors: as `StreamLog::hold`.
    HeldEvent(StreamLog& log, Ticket ticket) : entry(log.hold(ticket)), log_(log) {}
    ~HeldEvent() { log_.release(entry); }
    HeldEvent(const HeldEvent&) = delete;
    HeldEvent& operator=(const HeldEvent&) = delete;

    const StreamLog::Entry entry;

  private:
    StreamLog& log_;
};

/// Thrown by code that can't continue before the host has waited for a stream; the state is consistent.
struct DeviceMemory::Impl::MustWait {
    Shard& shard;
    Ticket ticket;
};

/// Calls work() under `lock_` and repeats it after each wait. The lock is released during a wait.
template <class Work>
auto DeviceMemory::Impl::locked(Work&& work) {
    std::unique_lock guard(lock_);
    while (true) {
        std::optional<MustWait> wait;
        try {
            return work();
        } catch (const MustWait& stopped) {
            wait.emplace(stopped);
        }
        const HeldEvent held(wait->shard.log, wait->ticket);
        guard.unlock();
        driver_->synchronize(held.entry.event);
        guard.lock();
        wait->shard.host_seen = std::max(wait->shard.host_seen, held.entry.ticket);
        ++synchronizations_;
    }
}

}  // namespace headroom::memory
