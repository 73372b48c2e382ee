#pragma once
// The allocator's record of a piece of its address range. Records are kept apart from the memory that they describe,
// because the host can't read a device's memory.
//
//     memory::BlockPool pool;
//     pool.prepare(1);                // may throw std::bad_alloc
//     Block* block = pool.make();     // can't
//     pool.recycle(block);
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <headroom/memory/allocator/internal/pending.hpp>
#include <headroom/memory/storage.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom::memory {

class Arena;

enum class BlockState : std::uint8_t {
    unused,  ///< the record describes nothing
    hole,    ///< addresses without memory
    free,
    cached,  ///< given back, and kept for the next request of the same size on its stream
    live,
};

/// A block state that other threads may read during a change. Changes to and from free and hole happen under the
/// allocator's lock, changes between live and cached under the stream's lock.
class SharedState {
  public:
    SharedState(BlockState state = BlockState::unused) noexcept : state_(state) {}
    SharedState(const SharedState& other) noexcept : state_(BlockState(other)) {}
    SharedState& operator=(const SharedState& other) noexcept { return *this = BlockState(other); }
    SharedState& operator=(BlockState state) noexcept {
        state_.store(state, std::memory_order_relaxed);
        return *this;
    }
    operator BlockState() const noexcept { return state_.load(std::memory_order_relaxed); }

  private:
    std::atomic<BlockState> state_;
};

/// A cache hit touches only the first cache line.
struct alignas(64) Block : Storage {
    SharedState state;
    CategoryId category = kNoCategory;
    bool used_elsewhere = false;  ///< `pending` lists streams whose work uses this live block
    PathId path = 0;
    PathId op = 0;
    std::size_t size = 0;   ///< bytes, a multiple of the driver's alignment
    Block* next = nullptr;  ///< in a list of free, cached or unused blocks

    Block* previous = nullptr;
    Block* before = nullptr;  ///< neighbours by address
    Block* after = nullptr;
    Arena* arena = nullptr;
    PendingSet pending;
};
static_assert(sizeof(Block) == 128);

/// Owns all records in one address range, so that it can tell whether a pointer is a record. Its memory never shrinks.
class BlockPool {
  public:
    /// Errors: std::bad_alloc if there is no address space.
    BlockPool();
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    /// Guarantees that the next `count` calls of `make` need no memory. Errors: std::bad_alloc.
    void prepare(std::size_t count) {
        if (unused_ < count) add(count);
    }
    Block* make() noexcept {
        Block* block = first_;
        first_ = block->next;
        --unused_;
        block->next = nullptr;
        return block;
    }
    void recycle(Block* block) noexcept;

    /// True if `block` is the address of a record.
    bool contains(const Block* block) const noexcept {
        const auto offset = reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(begin_);
        return offset < made_.load(std::memory_order_relaxed) * sizeof(Block) && offset % sizeof(Block) == 0;
    }
    /// Calls visit(block) for every record, used or not.
    template <class Visit>
    void for_each(Visit&& visit) {
        for (std::size_t i = 0; i < made_; ++i) visit(begin_[i]);
    }
    /// Leaks the records on purpose: buffers still point at them.
    void abandon() noexcept { begin_ = nullptr; }

  private:
    void add(std::size_t count);

    Block* begin_ = nullptr;
    std::size_t capacity_ = 0;          ///< number of records that the address range can hold
    std::atomic<std::size_t> made_{0};  ///< read by threads that give blocks back
    Block* first_ = nullptr;
    std::size_t unused_ = 0;
};

}  // namespace headroom::memory
