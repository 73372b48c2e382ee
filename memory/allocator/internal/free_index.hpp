#pragma once
// Finds a free block that fits in constant time. Sizes fall into classes: rows by power of two, 64 columns each; one
// bit per class says whether its list has a block. Method: M. Masmano et al., "TLSF: a new dynamic memory allocator for
// real-time systems", ECRTS 2004. It differs in one point: a few blocks of the request's own class are tried first,
// because training repeats the same sizes, and plain TLSF would split a larger block instead.
//
//     memory::FreeIndex index(64);
//     index.insert(block);
//     if (Block* fit = index.find(4096)) index.remove(fit);
#include <array>
#include <cstddef>
#include <cstdint>

#include <headroom/memory/allocator/internal/block.hpp>

namespace headroom::memory {

class FreeIndex {
  public:
    /// All sizes must be multiples of `alignment`, a power of two, and smaller than 2^53 * alignment.
    explicit FreeIndex(std::size_t alignment);

    void insert(Block* block) noexcept;
    void remove(Block* block) noexcept;
    /// A block of at least `size` bytes, which stays in the index; null if no larger class has one and the first few
    /// blocks of the request's own class don't fit.
    Block* find(std::size_t size) const noexcept;
    /// Like `find`, but checks every block of the request's own class: null means that no block fits. Linear in that
    /// class.
    Block* find_any(std::size_t size) const noexcept;
    /// Calls visit(block) for all blocks of at least `size` bytes, smaller size classes first, until it returns false.
    /// `visit` may remove the block and insert smaller ones.
    template <class Visit>
    void for_each_from(std::size_t size, Visit&& visit) {
        const Class first = class_of(size);
        for (unsigned row = first.row; row < kRows; ++row) {
            if (!(rows_ >> row & 1)) continue;
            for (unsigned column = row == first.row ? first.column : 0; column < kColumns; ++column) {
                for (Block* block = heads_[row][column]; block;) {
                    Block* const next = block->next;
                    if (block->size >= size && !visit(block)) return;
                    block = next;
                }
            }
        }
    }
    /// The largest block; null if there is none. Linear in the number of blocks of the topmost class.
    Block* largest() const noexcept;

  private:
    static constexpr unsigned kColumnBits = 6;
    static constexpr unsigned kColumns = 1u << kColumnBits;
    static constexpr unsigned kRows = 48;
    static constexpr int kProbes = 4;

    struct Class {
        unsigned row;
        unsigned column;
    };
    Class class_of(std::size_t size) const noexcept;
    /// Head of the first non-empty class from `from` on, or null.
    Block* first_from(Class from) const noexcept;
    Block* best_of(Class c, std::size_t size, int probes) const noexcept;

    unsigned shift_;
    std::uint64_t rows_ = 0;
    std::array<std::uint64_t, kRows> columns_{};
    std::array<std::array<Block*, kColumns>, kRows> heads_{};
};

}  // namespace headroom::memory
