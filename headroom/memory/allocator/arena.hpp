#pragma once
// One reserved address range and the blocks that tile it: live ones, free ones, and holes, which have addresses and no
// memory. Blocks are split when taken and merged with free neighbours when given back. Pages are put into the hole that
// takes the fewest, and can be taken out of free blocks again. The arena knows nothing of other streams' progress: its
// caller waits for the work that is pending on a block. Internal to memory/; not thread-safe.
//
//     memory::Arena arena(supply, blocks);
//     Block* block = arena.find(4096, 0);
//     if (block) arena.take(block, 4096, 0);
//     arena.give_back(block);
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <headroom/memory/allocator/block.hpp>
#include <headroom/memory/allocator/free_index.hpp>
#include <headroom/memory/allocator/page_supply.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::memory {

class Arena {
  public:
    static constexpr StreamId kMaxStreams = 64;

    /// Reserves the driver's `address_bytes`. Errors: DeviceError, std::bad_alloc.
    Arena(PageSupply& supply, BlockPool& blocks, std::uint32_t pool);
    /// Gives all pages back, whether their blocks are live or not.
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    std::uint32_t pool() const noexcept { return pool_; }

    /// Must have been called for every stream that takes blocks here. Errors: std::bad_alloc.
    void prepare(StreamId stream) {
        if (!indices_[stream]) indices_[stream] = std::make_unique<FreeIndex>(alignment_);
    }
    /// A free block of at least `size` bytes, null if there is none. Blocks that no other stream may still use come
    /// first.
    Block* find(std::size_t size, StreamId stream) const noexcept;
    /// Makes the free block live with exactly `size` bytes. One record must have been prepared.
    void take(Block* block, std::size_t size, StreamId stream) noexcept;
    /// Makes a live or cached block free; its `pending` names the streams that may still use it.
    void give_back(Block* block) noexcept;

    /// A place for pages that makes a free block of some size.
    struct Extension {
        Block* hole = nullptr;
        std::size_t pages = 0;
        const Block* before = nullptr;  ///< the free block before the hole, if it will be part of it
        const Block* after = nullptr;   ///< the one after it, likewise; if only that one, pages go to the hole's end
        bool uses(const Block* block) const noexcept { return block == before || block == after; }
    };
    /// The place that takes the fewest pages, the lowest address of those; none if no hole is large enough or `pages`
    /// are too few. If pages `may_move`, `pages` includes those in this arena's free blocks.
    std::optional<Extension> best_extension(std::size_t size, std::size_t pages, bool may_move) const noexcept;
    /// Puts spare pages of the supply there, of which there must be enough; no work is pending on the new memory. Two
    /// records must have been prepared. Errors: DeviceError, std::bad_alloc; nothing has changed.
    void extend(const Extension& extension);

    /// Calls wait(block) for free blocks with whole pages, except those that `kept` uses, and moves their pages into
    /// the supply, until there are `count` more. Errors: what `wait` throws, std::bad_alloc; all is consistent.
    void gather(std::size_t count, const Extension* kept, const std::function<void(Block&)>& wait);
    /// Whole pages in free blocks.
    std::size_t free_pages() noexcept;

    /// The largest block that could be had with `pages` spare pages and, if they may be moved, those in free blocks.
    std::size_t largest_obtainable(std::size_t pages, bool may_move) noexcept;
    std::size_t largest_free() const noexcept;
    /// Bytes of mapped pages.
    std::size_t mapped() const noexcept { return mapped_; }
    /// Calls visit(block) in the order of addresses, holes included.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Block* block = first_; block; block = block->after) visit(*block);
    }

  private:
    FreeIndex& index_for(const Block& block) const noexcept;
    void insert(Block* block) noexcept;
    void remove(Block* block) noexcept;
    /// Cuts `block` so that it has `size` bytes and returns the rest, of the same state, in no index.
    Block* split(Block* block, std::size_t size) noexcept;
    void absorb_next(Block* block) noexcept;
    /// Merges a free block with its free neighbours, a hole with holes; returns what it has become, in no index.
    Block* merge(Block* block) noexcept;
    /// Addresses of the whole pages inside of a block, as granules from the arena's begin.
    struct Granules {
        std::size_t first = 0;
        std::size_t count = 0;
    };
    Granules granules(const Block& block) const noexcept;
    std::size_t obtainable_at(const Block& hole, std::size_t pages, bool may_move) const noexcept;
    void take_pages_out(Block* block, Granules taken);
    void add_hole(Block* hole) noexcept;
    void remove_hole(Block* hole) noexcept;

    PageSupply& supply_;
    BlockPool& blocks_;
    const std::uint32_t pool_;
    const std::size_t alignment_;
    const std::size_t granularity_;
    const bool touchable_;
    const std::size_t address_bytes_;
    std::byte* begin_;
    std::vector<PageHandle> pages_;  ///< by granule from `begin_`; 0: not mapped
    std::size_t mapped_ = 0;
    Block* first_ = nullptr;
    Block* holes_ = nullptr;  ///< a list through `next` and `previous`
    /// Free blocks: by the one stream that may still use them; then those of several streams; then those of none.
    static constexpr std::size_t kSeveral = kMaxStreams;
    static constexpr std::size_t kNone = kMaxStreams + 1;
    std::array<std::unique_ptr<FreeIndex>, kMaxStreams + 2> indices_;
};

}  // namespace headroom::memory
