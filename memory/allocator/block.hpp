#pragma once
// The allocator's record of a piece of its address range, live or free. Records lie beside the memory that they
// describe, never in it, since a device's memory can't be read by the host. Internal to memory/.
//
//     BlockPool pool;
//     pool.prepare(1);                // may throw std::bad_alloc
//     Block* block = pool.make();     // can't
//     pool.recycle(block);
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <headroom/memory/storage.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom {

class Arena;

struct alignas(64) Block : Storage {
    bool live = false;
    Category category{};
    PathId path = 0;
    std::size_t size = 0;     ///< bytes, a multiple of the driver's alignment
    Block* before = nullptr;  ///< neighbours by address, live or free
    Block* after = nullptr;
    Arena* arena = nullptr;
    std::uint64_t streams = 0;  ///< bit s: work on stream s may still use these bytes
    Block* previous_free = nullptr;
    Block* next_free = nullptr;
};

/// Owns all records and hands out unused ones; memory for them only ever grows.
class BlockPool {
  public:
    /// The next `count` calls of `make` (at most kSlab) won't need memory. Errors: std::bad_alloc.
    void prepare(std::size_t count) {
        if (unused_ < count) add_slab();
    }
    Block* make() noexcept {
        Block* block = first_;
        first_ = block->next_free;
        --unused_;
        block->next_free = nullptr;
        return block;
    }
    void recycle(Block* block) noexcept {
        block->live = false;
        block->next_free = first_;
        first_ = block;
        ++unused_;
    }

  private:
    static constexpr std::size_t kSlab = 256;
    void add_slab();

    std::vector<std::unique_ptr<Block[]>> slabs_;
    Block* first_ = nullptr;
    std::size_t unused_ = 0;
};

}  // namespace headroom
