// How pages get into an arena's holes and out of its free blocks.
#include <algorithm>

#include <headroom/memory/allocator/internal/arena.hpp>
#include <headroom/memory/allocator/internal/poison.hpp>

namespace headroom::memory {

namespace {

bool is_free(const Block* block) { return block && block->state == BlockState::free; }

std::size_t free_bytes(const Block* block) { return is_free(block) ? block->size : 0; }

}  // namespace

void Arena::add_hole(Block* hole) noexcept {
    hole->previous = nullptr;
    hole->next = holes_;
    if (holes_) holes_->previous = hole;
    holes_ = hole;
}

void Arena::remove_hole(Block* hole) noexcept {
    if (hole->next) hole->next->previous = hole->previous;
    (hole->previous ? hole->previous->next : holes_) = hole->next;
}

Arena::Granules Arena::granules(const Block& block) const noexcept {
    const auto offset = static_cast<std::size_t>(block.data - begin_);
    const std::size_t first = (offset + granularity_ - 1) / granularity_;
    const std::size_t end = (offset + block.size) / granularity_;
    return {first, end > first ? end - first : 0};
}

std::size_t Arena::movable_pages(const Block& block) const {
    const std::size_t pages = granules(block).count;
    return pages > 0 && waitable_(block.pending, kMaxStreams) ? pages : 0;
}

Arena::Site Arena::site(Block* hole, StreamId stream) const {
    const auto usable = [&](const Block* block) { return is_free(block) && waitable_(block->pending, stream); };
    const bool before = usable(hole->before);
    const bool after = usable(hole->after);
    const std::size_t front = is_free(hole->before) && !before ? 1 : 0;
    const std::size_t back = is_free(hole->after) && !after ? 1 : 0;
    const std::size_t pages = hole->size / granularity_;
    return {hole, before ? hole->before : nullptr, after ? hole->after : nullptr,
            pages > front + back ? pages - front - back : 0, front};
}

std::optional<Arena::Extension> Arena::best_extension(const Wanted& wanted) const {
    std::optional<Extension> best;
    const auto consider = [&](const Extension& other, std::size_t room) {
        if (other.pages > room) return;
        std::size_t needed = other.pages;
        // The pages of what becomes part of it can't be put into the hole.
        if (wanted.may_move && other.before) needed += movable_pages(*other.before);
        if (wanted.may_move && other.after) needed += movable_pages(*other.after);
        if (needed > wanted.pages) return;
        const bool better =
            !best || other.pages < best->pages || (other.pages == best->pages && other.hole->data < best->hole->data);
        if (better) best = other;
    };
    const auto pages_beside = [&](std::size_t bytes) {
        return wanted.size > bytes ? (wanted.size - bytes + granularity_ - 1) / granularity_ : 0;
    };
    for (Block* hole = holes_; hole; hole = hole->next) {
        const auto [at, before, after, room, offset] = site(hole, wanted.stream);
        if (!before && !after) consider({at, pages_beside(0), nullptr, nullptr, offset}, room);
        if (before) consider({at, pages_beside(before->size), before, nullptr, 0}, room);
        if (after) consider({at, pages_beside(after->size), nullptr, after, 0}, room);
        if (before && after && wanted.size <= before->size + at->size + after->size) {
            consider({at, room, before, after, 0}, room);
        }
    }
    return best;
}

void Arena::extend(const Extension& extension) {
    Block* block = extension.hole;
    const std::size_t bytes = extension.pages * granularity_;
    const bool at_end = extension.after && !extension.before;
    const std::size_t offset = at_end ? block->size - bytes : extension.offset * granularity_;
    const std::size_t first = static_cast<std::size_t>(block->data + offset - begin_) / granularity_;
    if (pages_.size() < first + extension.pages) pages_.resize(first + extension.pages);
    supply_.map(begin_ + first * granularity_, std::span(pages_).subspan(first, extension.pages), pool_);
    mapped_ += bytes;
    if (touchable_) poison(begin_ + first * granularity_, bytes);

    remove_hole(block);
    if (offset > 0) {
        Block* const end = split(block, offset);
        add_hole(block);
        block = end;
    }
    if (block->size > bytes) add_hole(split(block, bytes));
    give_back(block);
}

void Arena::take_pages_out(Block* block, Granules taken) {
    supply_.expect(taken.count);
    blocks_.prepare(2);
    std::byte* const begin = begin_ + taken.first * granularity_;
    const std::size_t bytes = taken.count * granularity_;
    remove(block);
    if (block->data < begin) {
        Block* const front = block;
        block = split(front, static_cast<std::size_t>(begin - front->data));
        insert(front);
    }
    if (block->size > bytes) insert(split(block, bytes));
    if (touchable_) unpoison(begin, bytes);
    supply_.unmap(begin, std::span(pages_).subspan(taken.first, taken.count), pool_);
    mapped_ -= bytes;

    block->state = BlockState::hole;
    block->pending.clear();
    if (Block* after = block->after; after && after->state == BlockState::hole) {
        remove_hole(after);
        absorb_next(block);
    }
    if (Block* before = block->before; before && before->state == BlockState::hole) {
        absorb_next(before);
    } else {
        add_hole(block);
    }
}

void Arena::gather(std::size_t count, const Extension* kept, const std::function<void(Block&)>& wait) {
    const auto from = [&](FreeIndex& index) {
        index.for_each_from(granularity_, [&](Block* block) {
            if (count == 0) return false;
            Granules taken = granules(*block);
            if (movable_pages(*block) == 0 || (kept && kept->uses(block))) return true;
            wait(*block);
            if (taken.count > count) taken = {taken.first + taken.count - count, count};
            take_pages_out(block, taken);
            count -= taken.count;
            return true;
        });
    };
    from(*indices_[kNone]);  // those that nobody has to be waited for
    for (std::size_t i = 0; i < kNone; ++i) {
        if (indices_[i]) from(*indices_[i]);
    }
}

std::size_t Arena::free_pages() const {
    std::size_t pages = 0;
    for (const auto& index : indices_) {
        if (!index) continue;
        index->for_each_from(granularity_, [&](Block* block) {
            pages += movable_pages(*block);
            return true;
        });
    }
    return pages;
}

std::size_t Arena::obtainable_at(const Site& site, const Wanted& wanted) const {
    const std::size_t pages = wanted.pages;
    const std::size_t before = free_bytes(site.before);
    const std::size_t after = free_bytes(site.after);
    const std::size_t pages_before = before && wanted.may_move ? movable_pages(*site.before) : 0;
    const std::size_t pages_after = after && wanted.may_move ? movable_pages(*site.after) : 0;
    // What a neighbour becomes part of, its pages can't be moved to.
    std::size_t most = before + std::min(site.room, pages - pages_before) * granularity_;
    most = std::max(most, after + std::min(site.room, pages - pages_after) * granularity_);
    if (before && after && pages >= pages_before + pages_after + site.room) {
        most = std::max(most, before + site.hole->size + after);
    }
    return most;
}

std::size_t Arena::largest_free(StreamId stream) const {
    std::size_t largest = 0;
    for (const auto& index : indices_) {
        const Block* block = index ? index->largest() : nullptr;
        if (!block || block->size <= largest) continue;
        if (waitable_(block->pending, stream)) {
            largest = block->size;
            continue;
        }
        index->for_each_from(largest, [&](Block* other) {
            if (waitable_(other->pending, stream)) largest = std::max(largest, other->size);
            return true;
        });
    }
    return largest;
}

std::size_t Arena::largest_obtainable(const Wanted& wanted) const {
    std::size_t most = largest_free(wanted.stream);
    for (Block* hole = holes_; hole; hole = hole->next) {
        most = std::max(most, obtainable_at(site(hole, wanted.stream), wanted));
    }
    return most;
}

}  // namespace headroom::memory
