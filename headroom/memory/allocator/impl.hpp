#pragma once
// The parts of `DeviceMemory` put together. A request tries in turn: the stream's quick cache (allocate.cpp), the
// arena's free blocks, the stream's own first, and holes filled with pages that are spare, new, or moved out of free
// blocks (grow.cpp). inspect.cpp counts and describes. Internal to memory/.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/allocator/arena.hpp>
#include <headroom/memory/allocator/path_table.hpp>
#include <headroom/memory/allocator/peaks.hpp>
#include <headroom/memory/allocator/shard.hpp>
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
    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count, bool at_peak) const;
    void reset_peak();
    std::size_t trim();
    void start_history(std::size_t events);
    MemorySnapshot snapshot() const;
    /// The mark, and live bytes.
    std::pair<std::uint32_t, std::size_t> open_mark();
    void close_mark(std::uint32_t mark) noexcept;
    std::size_t mark(std::uint32_t mark) const;
    std::size_t live() const;

    const DriverProperties& properties() const { return properties_; }
    std::size_t limit() const { return limit_; }
    const MemoryOptions& options() const { return options_; }

  private:
    using Lock = std::lock_guard<SpinLock>;
    struct Pool {
        std::unique_ptr<Arena> arena;
        bool open = true;  ///< its pages stay where they are
        std::size_t blocks = 0;
    };
    /// A request that the quick cache has no block for.
    struct Request {
        std::size_t bytes;
        std::size_t size;
        StreamId stream;
        Tag tag;
        PoolId pool;
    };
    /// Holds the locks of all shards, except for one that its caller may hold. For holders of `lock_`.
    class AllShards;

    std::size_t rounded(std::size_t bytes) const noexcept {
        return bytes ? (bytes + alignment_ - 1) & ~(alignment_ - 1) : alignment_;
    }

    // allocate.cpp
    Allocation hand_out(Block* block, std::size_t bytes, Tag tag, Shard& shard) noexcept;
    Allocation allocate_slowly(const Request& request);
    void check(const Request& request) const;
    Shard& shard_for(StreamId stream);
    Block* obtain(const Request& request, Arena& arena, Shard& shard);
    /// A block of the arena or, if that is the common one, of the ranges that were added to it.
    Block* find(Arena& arena, std::size_t size, StreamId stream) const;
    [[noreturn]] void refuse(const Request& request, Arena& arena);
    void deallocate_slowly(Block* block);
    void account_free(Block* block, Shard& shard) noexcept;
    void return_to_arena(Block* block, Shard& shard) noexcept;
    void leave_pool(PoolId pool, const Shard* locked) noexcept;
    void end_pool(std::map<PoolId, Pool>::iterator pool, const Shard* locked) noexcept;
    void check_live(const Block* block, const char* call) const;
    std::string name_of(const Block& block) const;
    void note(MemoryEvent::Kind kind, const Block& block) noexcept;

    // Streams; for holders of `lock_` and of the stream's shard.
    void wait_for_others(const PendingSet& pending, Shard& shard);
    void drain(Shard& shard);
    void drain_all(const Shard* locked);
    void raise_peak(Shard& shard) noexcept;
    void share_quota() noexcept;

    // grow.cpp; for holders of `lock_`.
    /// Puts pages at a place where they make a free block of `size` bytes; false if there are too few. `locked` is the
    /// shard whose lock the caller holds.
    bool grow(Arena& arena, std::size_t size, const Shard* locked);
    /// The same in this address range alone.
    bool grow_range(Arena& arena, std::size_t size, const Shard* locked);
    std::size_t all_pages(std::size_t fresh);
    /// The same with at most `fresh` new pages.
    bool grow_by(std::size_t fresh, Arena& arena, std::size_t size, const Shard* locked);
    /// Moves up to `count` pages from free blocks into the supply, but none that `kept`, of `wanting`, relies on.
    void gather(std::size_t count, const Arena* wanting, const Arena::Extension* kept, const Shard* locked);
    /// The number of pages that may be made before unused ones are moved.
    std::size_t pages_within_slack(std::size_t size, const Shard* locked) const;
    void synchronize(const PendingSet& pending, const Shard* locked);
    /// The arenas whose free pages may be taken away.
    std::vector<Arena*> movable_arenas();
    bool may_move(const Arena& arena) const { return arena.pool() == 0 || !pools_.at(arena.pool()).open; }

    // inspect.cpp
    // For holders of `lock_` and of all shards.
    std::size_t live_unlocked() const noexcept;
    MemoryStatistics statistics_unlocked() const;
    std::vector<std::pair<std::string, std::size_t>> largest_paths_unlocked(std::size_t count, bool at_peak) const;
    /// For holders of `lock_` and of the request's shard.
    void describe(const Arena& arena, MemorySnapshot& snapshot) const;
    MemoryReport report(const Request& request, Arena& arena);
    void count_free(StreamId stream, MemoryReport& report);
    void count_obtainable(Arena& arena, MemoryReport& report);

    DeviceMemory* const self_;
    mutable SpinLock lock_;
    std::unique_ptr<Driver> driver_;
    const DriverProperties properties_;
    const std::size_t alignment_;
    const std::size_t limit_;
    const MemoryOptions options_;
    std::uint64_t synchronizations_ = 0;
    PathTable paths_;
    Peaks peaks_;
    BlockPool blocks_;
    PageSupply supply_;
    std::array<std::atomic<Shard*>, Arena::kMaxStreams> shards_{};
    std::vector<std::unique_ptr<Shard>> shard_list_;  ///< in the order of their first use
    Arena common_;
    std::vector<std::unique_ptr<Arena>> more_;  ///< further address ranges of the common pool
    std::map<PoolId, Pool> pools_;              ///< private ones; ordered, so that decisions are deterministic
    PoolId last_pool_ = 0;
    std::atomic<std::uint32_t> step_{0};
    std::unique_ptr<HistoryRing> history_;  ///< changes while all shards are locked
};

/// Locks all shards; `except` is locked already.
class DeviceMemory::Impl::AllShards {
  public:
    AllShards(const Impl& impl, const Shard* except) : impl_(impl), except_(except) {
        for (const auto& shard : impl_.shard_list_) {
            if (shard.get() != except_) shard->lock.lock();
        }
    }
    ~AllShards() {
        for (const auto& shard : impl_.shard_list_) {
            if (shard.get() != except_) shard->lock.unlock();
        }
    }
    AllShards(const AllShards&) = delete;
    AllShards& operator=(const AllShards&) = delete;

  private:
    const Impl& impl_;
    const Shard* except_;
};

}  // namespace headroom::memory
