#include <headroom/memory/allocator/internal/free_index.hpp>

#include <bit>
#include <limits>

namespace headroom::memory {

FreeIndex::FreeIndex(std::size_t alignment) : shift_(static_cast<unsigned>(std::countr_zero(alignment))) {}

FreeIndex::Class FreeIndex::class_of(std::size_t size) const noexcept {
    const std::size_t units = size >> shift_;
    if (units < kColumns) return {0, static_cast<unsigned>(units)};
    const unsigned top = static_cast<unsigned>(std::bit_width(units)) - 1;
    return {top - kColumnBits + 1, static_cast<unsigned>(units >> (top - kColumnBits)) - kColumns};
}

void FreeIndex::insert(Block* block) noexcept {
    const auto [row, column] = class_of(block->size);
    Block*& head = heads_[row][column];
    block->previous = nullptr;
    block->next = head;
    if (head) head->previous = block;
    head = block;
    columns_[row] |= std::uint64_t{1} << column;
    rows_ |= std::uint64_t{1} << row;
}

void FreeIndex::remove(Block* block) noexcept {
    if (block->next) block->next->previous = block->previous;
    if (block->previous) {
        block->previous->next = block->next;
        return;
    }
    const auto [row, column] = class_of(block->size);
    heads_[row][column] = block->next;
    if (block->next) return;
    columns_[row] &= ~(std::uint64_t{1} << column);
    if (!columns_[row]) rows_ &= ~(std::uint64_t{1} << row);
}

Block* FreeIndex::best_of(Class c, std::size_t size, int probes) const noexcept {
    Block* best = nullptr;
    for (Block* block = heads_[c.row][c.column]; block && probes-- > 0; block = block->next) {
        if (block->size == size) return block;
        if (block->size > size && (!best || block->size < best->size)) best = block;
    }
    return best;
}

Block* FreeIndex::first_from(Class from) const noexcept {
    if (from.column < kColumns) {
        const std::uint64_t columns = columns_[from.row] & (~std::uint64_t{0} << from.column);
        if (columns) return heads_[from.row][static_cast<unsigned>(std::countr_zero(columns))];
    }
    const std::uint64_t rows = rows_ & (~std::uint64_t{1} << from.row);
    if (!rows) return nullptr;
    const auto row = static_cast<unsigned>(std::countr_zero(rows));
    return heads_[row][static_cast<unsigned>(std::countr_zero(columns_[row]))];
}

Block* FreeIndex::find(std::size_t size) const noexcept {
    const Class own = class_of(size);
    if (Block* block = best_of(own, size, kProbes)) return block;
    return first_from({own.row, own.column + 1});
}

Block* FreeIndex::find_any(std::size_t size) const noexcept {
    const Class own = class_of(size);
    if (Block* block = best_of(own, size, std::numeric_limits<int>::max())) return block;
    return first_from({own.row, own.column + 1});
}

Block* FreeIndex::largest() const noexcept {
    if (!rows_) return nullptr;
    const auto row = static_cast<unsigned>(std::bit_width(rows_)) - 1;
    const auto column = static_cast<unsigned>(std::bit_width(columns_[row])) - 1;
    Block* best = heads_[row][column];
    for (Block* block = best; block; block = block->next) {
        if (block->size > best->size) best = block;
    }
    return best;
}

}  // namespace headroom::memory
