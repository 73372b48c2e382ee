#include <headroom/memory/allocator/arena.hpp>

#include <algorithm>
#include <bit>

namespace headroom {

namespace {

constexpr std::uint64_t bit(StreamId stream) { return std::uint64_t{1} << stream; }

/// Destroys an event when the scope ends: a wait that was asked for stays in force.
class ScopedEvent {
  public:
    ScopedEvent(Driver& driver, StreamId stream) : driver_(driver), event_(driver.record(stream)) {}
    ~ScopedEvent() { driver_.destroy_event(event_); }
    ScopedEvent(const ScopedEvent&) = delete;
    ScopedEvent& operator=(const ScopedEvent&) = delete;
    EventHandle get() const { return event_; }

  private:
    Driver& driver_;
    EventHandle event_;
};

}  // namespace

Arena::Arena(PageSupply& supply, BlockPool& blocks)
    : supply_(supply),
      blocks_(blocks),
      alignment_(supply.driver().properties().alignment),
      address_bytes_(supply.driver().properties().address_bytes),
      begin_(supply.driver().reserve(address_bytes_)) {}

Arena::~Arena() {
    supply_.decommit(begin_ + pages_.size() * supply_.granularity(), pages_.size(), pages_);
    supply_.driver().release(begin_, address_bytes_);
}

FreeIndex& Arena::index_for(std::uint64_t streams) noexcept {
    return *indices_[std::has_single_bit(streams) ? std::countr_zero(streams) : kMaxStreams];
}

Block* Arena::find(std::size_t size, StreamId stream) const noexcept {
    if (const auto& own = indices_[stream]) {
        if (Block* block = own->find(size)) return block;
    }
    return find_elsewhere(size);
}

Block* Arena::find_elsewhere(std::size_t size) const noexcept {
    for (const auto& index : indices_) {
        if (!index) continue;
        if (Block* block = index->find_any(size)) return block;
    }
    return nullptr;
}

void Arena::wait_for_others(const Block& block, StreamId stream) {
    // The event is recorded now, not when the block was given back: later than needed, hence correct, and a program
    // with one stream never records any.
    for (std::uint64_t others = block.streams & ~bit(stream); others; others &= others - 1) {
        const ScopedEvent event(supply_.driver(), static_cast<StreamId>(std::countr_zero(others)));
        supply_.driver().wait(stream, event.get());
    }
}

Block* Arena::take(std::size_t size, StreamId stream) {
    Block* block = find(size, stream);
    if (!block) return nullptr;
    if (block->streams != bit(stream)) {
        if (!indices_[stream]) indices_[stream] = std::make_unique<FreeIndex>(alignment_);
        wait_for_others(*block, stream);
    }
    index_for(block->streams).remove(block);
    if (block->size > size) split(block, size);
    block->streams = bit(stream);
    block->stream = stream;
    block->live = true;
    return block;
}

void Arena::split(Block* block, std::size_t size) noexcept {
    Block* rest = blocks_.make();
    rest->data = block->data + size;
    rest->size = block->size - size;
    rest->arena = this;
    rest->streams = block->streams;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) {
        rest->after->before = rest;
    } else {
        last_ = rest;
    }
    block->after = rest;
    block->size = size;
    index_for(rest->streams).insert(rest);
}

void Arena::merge_with_next(Block* block) noexcept {
    Block* next = block->after;
    block->size += next->size;
    block->streams |= next->streams;
    block->after = next->after;
    if (block->after) {
        block->after->before = block;
    } else {
        last_ = block;
    }
    blocks_.recycle(next);
}

void Arena::give_back(Block* block) noexcept {
    block->live = false;
    if (Block* after = block->after; after && !after->live) {
        index_for(after->streams).remove(after);
        merge_with_next(block);
    }
    if (Block* before = block->before; before && !before->live) {
        index_for(before->streams).remove(before);
        block = before;
        merge_with_next(block);
    }
    index_for(block->streams).insert(block);
}

bool Arena::grow(std::size_t size, StreamId stream) {
    if (!indices_[stream]) indices_[stream] = std::make_unique<FreeIndex>(alignment_);
    if (!indices_[kMaxStreams]) indices_[kMaxStreams] = std::make_unique<FreeIndex>(alignment_);
    const std::size_t tail = last_ && !last_->live ? last_->size : 0;
    if (size <= tail) return true;
    const std::size_t granularity = supply_.granularity();
    const std::size_t committed = pages_.size() * granularity;
    const std::size_t missing = size - tail;
    if (missing > address_bytes_ - committed) return false;
    const std::size_t count = (missing + granularity - 1) / granularity;
    if (count > (address_bytes_ - committed) / granularity) return false;
    if (!supply_.commit(begin_ + committed, count, pages_)) return false;

    Block* fresh = blocks_.make();
    fresh->data = begin_ + committed;
    fresh->size = count * granularity;
    fresh->arena = this;
    fresh->streams = bit(stream);
    fresh->before = last_;
    fresh->after = nullptr;
    if (last_) last_->after = fresh;
    last_ = fresh;
    give_back(fresh);
    return true;
}

std::size_t Arena::trim() noexcept {
    if (!last_ || last_->live) return 0;
    const std::size_t granularity = supply_.granularity();
    const std::size_t bytes = last_->size / granularity * granularity;
    if (bytes == 0) return 0;
    index_for(last_->streams).remove(last_);
    supply_.decommit(begin_ + pages_.size() * granularity, bytes / granularity, pages_);
    last_->size -= bytes;
    if (last_->size > 0) {
        index_for(last_->streams).insert(last_);
    } else {
        Block* gone = last_;
        last_ = gone->before;
        if (last_) last_->after = nullptr;
        blocks_.recycle(gone);
    }
    return bytes;
}

std::size_t Arena::largest_free() const noexcept {
    std::size_t largest = 0;
    for (const auto& index : indices_) {
        const Block* block = index ? index->largest() : nullptr;
        if (block) largest = std::max(largest, block->size);
    }
    return largest;
}

}  // namespace headroom
