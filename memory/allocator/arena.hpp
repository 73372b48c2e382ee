#pragma once
// One reserved address range and the blocks that tile its committed part. Blocks are split when taken and merged with
// free neighbours when given back; the range grows at its end, starting with the free block that lies there. A free
// block remembers on which streams work may still use it. Internal to memory/; not thread-safe.
//
//     Arena arena(supply, blocks);
//     Block* block = arena.take(4096, 0);
//     if (!block && arena.grow(4096, 0)) block = arena.take(4096, 0);
//     arena.give_back(block);
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <headroom/memory/allocator/block.hpp>
#include <headroom/memory/driver.hpp>
#include <headroom/memory/allocator/free_index.hpp>
#include <headroom/memory/allocator/page_supply.hpp>

namespace headroom {

class Arena {
  public:
    static constexpr StreamId kMaxStreams = 64;

    /// Reserves the driver's `address_bytes`. Errors: DeviceError.
    Arena(PageSupply& supply, BlockPool& blocks);
    /// Gives all pages back, whether their blocks are live or not.
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// A block of exactly `size` bytes, marked live, that `stream` may use at once: it was made to wait for what other
    /// streams still do there. Blocks of the stream itself are preferred. Null if nothing fits. Two records must have
    /// been prepared. Errors: DeviceError, nothing has changed then.
    Block* take(std::size_t size, StreamId stream);
    void give_back(Block* block) noexcept;

    /// Commits pages until the range ends in a free block of at least `size` bytes; false, with nothing changed, if
    /// they can't be had. One record must have been prepared. Errors: DeviceError.
    bool grow(std::size_t size, StreamId stream);
    /// Gives pages without live blocks at the end of the range back; returns bytes.
    std::size_t trim() noexcept;

    std::size_t largest_free() const noexcept;

  private:
    FreeIndex& index_for(std::uint64_t streams) noexcept;
    Block* find(std::size_t size, StreamId stream) const noexcept;
    Block* find_elsewhere(std::size_t size) const noexcept;
    void wait_for_others(const Block& block, StreamId stream);
    void split(Block* block, std::size_t size) noexcept;
    void merge_with_next(Block* block) noexcept;

    PageSupply& supply_;
    BlockPool& blocks_;
    const std::size_t alignment_;
    const std::size_t address_bytes_;
    std::byte* const begin_;
    std::vector<PageHandle> pages_;  ///< in address order, one granule each, from `begin_` without gaps
    Block* last_ = nullptr;          ///< the block that ends the committed part
    /// Free blocks by the one stream that used them; the last index is for those that several used.
    std::array<std::unique_ptr<FreeIndex>, kMaxStreams + 1> indices_;
};

}  // namespace headroom
