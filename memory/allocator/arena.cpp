#include <headroom/memory/allocator/internal/arena.hpp>

#include <algorithm>
#include <utility>

#include <headroom/memory/allocator/internal/poison.hpp>

namespace headroom::memory {

Arena::Arena(PageSupply& supply, BlockPool& blocks, PoolId pool, std::size_t bytes, Waitable waitable)
    : supply_(supply),
      blocks_(blocks),
      pool_(pool),
      alignment_(supply.driver().properties().alignment),
      granularity_(supply.granularity()),
      touchable_(supply.driver().properties().touchable),
      address_bytes_((bytes + granularity_ - 1) / granularity_ * granularity_),
      waitable_(std::move(waitable)) {
    indices_[kSeveral] = std::make_unique<FreeIndex>(alignment_);
    indices_[kNone] = std::make_unique<FreeIndex>(alignment_);
    blocks_.prepare(1);
    begin_ = supply_.driver().reserve(address_bytes_);
    first_ = blocks_.make();
    first_->data = begin_;
    first_->size = address_bytes_;
    first_->arena = this;
    first_->before = first_->after = nullptr;
    first_->state = BlockState::hole;
    add_hole(first_);
}

Arena::~Arena() {
    for (std::size_t i = 0; i < pages_.size(); ++i) {
        std::size_t end = i;
        while (end < pages_.size() && pages_[end] != 0) ++end;
        if (end == i) continue;
        std::byte* const address = begin_ + i * granularity_;
        if (touchable_) unpoison(address, (end - i) * granularity_);
        supply_.unmap_and_destroy(address, std::span(pages_).subspan(i, end - i), pool_);
        i = end;
    }
    supply_.driver().release(begin_, address_bytes_);
    for (Block* block = first_; block;) {
        Block* const after = block->after;
        if (block->state != BlockState::live) blocks_.recycle(block);
        block = after;
    }
}

FreeIndex& Arena::index_for(const Block& block) const noexcept {
    StreamId stream = 0;
    if (block.pending.single(stream)) return *indices_[stream];
    return *indices_[block.pending.empty() ? kNone : kSeveral];
}

void Arena::insert(Block* block) noexcept {
    block->state = BlockState::free;
    index_for(*block).insert(block);
}

void Arena::remove(Block* block) noexcept { index_for(*block).remove(block); }

Block* Arena::find(std::size_t size, StreamId stream) const {
    Block* const own = indices_[stream] ? indices_[stream]->find(size) : nullptr;
    Block* const nobodys = indices_[kNone]->find(size);
    if (own && nobodys) return own->size <= nobodys->size ? own : nobodys;
    if (own || nobodys) return own ? own : nobodys;
    Block* best = nullptr;
    for (const auto& index : indices_) {
        if (!index) continue;
        Block* block = index->find_any(size);
        if (block && !waitable_(block->pending, stream)) {
            block = nullptr;
            index->for_each_from(size, [&](Block* other) {
                if (waitable_(other->pending, stream)) block = other;
                return !block;
            });
        }
        if (block && (!best || block->size < best->size)) best = block;
    }
    return best;
}

void Arena::take(Block* block, std::size_t size, StreamId stream) noexcept {
    remove(block);
    if (block->size > size) insert(split(block, size));
    block->pending.clear();
    block->stream = stream;
    block->state = BlockState::live;
}

void Arena::give_back(Block* block) noexcept { insert(merge(block)); }

Block* Arena::split(Block* block, std::size_t size) noexcept {
    Block* rest = blocks_.make();
    rest->data = block->data + size;
    rest->size = block->size - size;
    rest->arena = this;
    rest->pending = block->pending;
    rest->state = block->state;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
}

void Arena::absorb_next(Block* block) noexcept {
    Block* next = block->after;
    block->size += next->size;
    block->pending.merge(next->pending);
    block->after = next->after;
    if (block->after) block->after->before = block;
    blocks_.recycle(next);
}

Block* Arena::merge(Block* block) noexcept {
    if (Block* after = block->after; after && after->state == BlockState::free) {
        remove(after);
        absorb_next(block);
    }
    if (Block* before = block->before; before && before->state == BlockState::free) {
        remove(before);
        absorb_next(before);
        return before;
    }
    return block;
}

}  // namespace headroom::memory
