#pragma once
// The blocks a stream gave back last, unmerged, by size. The next request of the same size on that stream gets one
// without a search and without touching the block's neighbours. It holds few blocks, so emptying it is cheap. Guarded
// by its stream's lock.
//
//     memory::QuickCache cache;
//     if (cache.has_room(block->size)) cache.push(block);
//     Block* block = cache.pop(4096);     // null if there is none
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/memory/allocator/internal/block.hpp>

namespace headroom::memory {

class QuickCache {
  public:
    /// True if a block of this size may be pushed.
    bool has_room(std::size_t size) const noexcept {
        const Bin& bin = bins_[bin_of(size)];
        return size <= kLargest && count_ < kMost && (!bin.head || bin.size == size);
    }
    void push(Block* block) noexcept {
        Bin& bin = bins_[bin_of(block->size)];
        block->next = bin.head;
        bin = {block->size, block};
        ++count_;
    }
    Block* pop(std::size_t size) noexcept {
        Bin& bin = bins_[bin_of(size)];
        Block* const block = bin.head;
        if (!block || bin.size != size) return nullptr;
        bin.head = block->next;
        --count_;
        return block;
    }
    /// Removes all blocks and calls visit(block) for each, in an order that depends on sizes and calls alone.
    template <class Visit>
    void drain(Visit&& visit) {
        for (std::size_t i = 0; i < kBins && count_ > 0; ++i) {
            while (Block* block = bins_[i].head) {
                bins_[i].head = block->next;
                --count_;
                visit(block);
            }
        }
    }

  private:
    static constexpr unsigned kBinBits = 6;
    static constexpr std::size_t kBins = std::size_t{1} << kBinBits;
    static constexpr std::size_t kMost = 64;
    /// Larger blocks are merged at once: in the cache they would leave no room for requests of other sizes.
    static constexpr std::size_t kLargest = std::size_t{1} << 20;
    static std::size_t bin_of(std::size_t size) noexcept {
        return static_cast<std::size_t>(size * 0x9E3779B97F4A7C15u >> (64 - kBinBits));  // Fibonacci hashing (Knuth)
    }

    struct Bin {
        std::size_t size = 0;
        Block* head = nullptr;
    };
    std::array<Bin, kBins> bins_{};
    std::size_t count_ = 0;
};

}  // namespace headroom::memory
