#pragma once
// One reserved address range and the blocks that tile it: live, free, and holes, which are addresses without memory.
// Blocks are split when taken and merged with free neighbours when given back. Pages go into the hole that needs the
// fewest, and can be taken out of free blocks again. The arena does not track other streams' progress: its caller waits
// for the work pending on a block, and tells it through `Waitable` whether it can. Not thread-safe.
//
//     memory::Arena arena(supply, blocks, 0, bytes, waitable);
//     Block* block = arena.find(4096, 0);
//     if (block) arena.take(block, 4096, 0);
//     arena.give_back(block);
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <headroom/memory/allocator/internal/block.hpp>
#include <headroom/memory/allocator/internal/free_index.hpp>
#include <headroom/memory/allocator/internal/page_supply.hpp>
#include <headroom/memory/driver.hpp>

namespace headroom::memory {

class Arena {
  public:
    static constexpr StreamId kMaxStreams = 64;

    /// Whether `stream` can wait for the work; kMaxStreams is the host.
    using Waitable = std::function<bool(const PendingSet& pending, StreamId stream)>;

    /// Reserves `bytes` of addresses, rounded up to whole pages. Errors: DeviceError, std::bad_alloc.
    Arena(PageSupply& supply, BlockPool& blocks, PoolId pool, std::size_t bytes, Waitable waitable);
    /// Unmaps all pages, whether their blocks are live or not.
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    PoolId pool() const noexcept { return pool_; }

    /// Must be called once for every stream that takes blocks here. Errors: std::bad_alloc.
    void prepare(StreamId stream) {
        if (!indices_[stream]) indices_[stream] = std::make_unique<FreeIndex>(alignment_);
    }
    /// A free block of at least `size` bytes that the stream can use; null if there is none. Prefers blocks that no
    /// other stream may still use.
    Block* find(std::size_t size, StreamId stream) const;
    /// Makes the free block live with exactly `size` bytes. Needs one prepared record.
    void take(Block* block, std::size_t size, StreamId stream) noexcept;
    /// Makes a live or cached block free; its `pending` names the streams that may still use it.
    void give_back(Block* block) noexcept;

    /// A place where added pages make a free block of the wanted size.
    struct Extension {
        Block* hole = nullptr;
        std::size_t pages = 0;
        const Block* before = nullptr;  ///< the free block before the hole, if it becomes part of the new block
        const Block* after = nullptr;  ///< likewise the one after it; if only that one, pages go to the end of the hole
        std::size_t offset = 0;        ///< pages of the hole left free in front
        bool uses(const Block* block) const noexcept { return block == before || block == after; }
    };
    /// A request's size and stream, the number of spare pages for it, and whether pages of free blocks may be moved:
    /// `pages` then includes this arena's.
    struct Wanted {
        std::size_t size;
        StreamId stream;
        std::size_t pages;
        bool may_move;
    };
    /// The place that needs the fewest pages; among equals, the lowest address. None if no hole is large enough or
    /// there are too few pages. Keeps one page of distance from free blocks that the stream can't wait for.
    std::optional<Extension> best_extension(const Wanted& wanted) const;
    /// Maps spare pages from the supply at `extension`; there must be enough. No work is pending on the new memory.
    /// Needs two prepared records. Errors: DeviceError, std::bad_alloc; nothing has changed.
    void extend(const Extension& extension);

    /// Moves whole pages of free blocks into the supply until it holds `count` more. Takes them from blocks that can be
    /// waited for, except those that `kept` uses, and calls wait(block) first. Errors: whatever `wait` throws,
    /// std::bad_alloc; the state stays consistent.
    void gather(std::size_t count, const Extension* kept, const std::function<void(Block&)>& wait);
    /// Whole pages in free blocks that can be waited for.
    std::size_t free_pages() const;

    /// The largest block that could be obtained, whatever `wanted.size` is.
    std::size_t largest_obtainable(const Wanted& wanted) const;
    /// Bytes of mapped pages.
    std::size_t mapped() const noexcept { return mapped_; }
    /// Calls visit(block) in address order, holes included.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Block* block = first_; block; block = block->after) visit(*block);
    }

  private:
    FreeIndex& index_for(const Block& block) const noexcept;
    void insert(Block* block) noexcept;
    void remove(Block* block) noexcept;
    /// Shrinks `block` to `size` bytes and returns the rest, in the same state and in no index.
    Block* split(Block* block, std::size_t size) noexcept;
    void absorb_next(Block* block) noexcept;
    /// Merges a free block with free neighbours, or a hole with holes; returns the result, which is in no index.
    Block* merge(Block* block) noexcept;
    /// The whole pages inside a block, in granules from the start of the arena.
    struct Granules {
        std::size_t first = 0;
        std::size_t count = 0;
    };
    Granules granules(const Block& block) const noexcept;
    /// Pages that may be taken out of a free block.
    std::size_t movable_pages(const Block& block) const;
    /// A hole, its free neighbours that the stream can wait for, and its room in pages.
    struct Site {
        Block* hole;
        const Block* before;
        const Block* after;
        std::size_t room;
        std::size_t offset;  ///< pages to leave free in front
    };
    Site site(Block* hole, StreamId stream) const;
    std::size_t obtainable_at(const Site& site, const Wanted& wanted) const;
    std::size_t largest_free(StreamId stream) const;
    void take_pages_out(Block* block, Granules taken);
    void add_hole(Block* hole) noexcept;
    void remove_hole(Block* hole) noexcept;

    PageSupply& supply_;
    BlockPool& blocks_;
    const PoolId pool_;
    const std::size_t alignment_;
    const std::size_t granularity_;
    const bool touchable_;
    const std::size_t address_bytes_;
    const Waitable waitable_;
    std::byte* begin_;
    std::vector<PageHandle> pages_;  ///< by granule from `begin_`; 0: not mapped
    std::size_t mapped_ = 0;
    Block* first_ = nullptr;
    Block* holes_ = nullptr;  ///< a list through `next` and `previous`
    /// Free blocks by the one stream that may still use them; then those of several streams; then those of none.
    static constexpr std::size_t kSeveral = kMaxStreams;
    static constexpr std::size_t kNone = kMaxStreams + 1;
    std::array<std::unique_ptr<FreeIndex>, kMaxStreams + 2> indices_;
};

}  // namespace headroom::memory
