// How pages get into an arena's holes and out of its free blocks.
#include <algorithm>

#include <headroom/memory/allocator/arena.hpp>
#include <headroom/memory/allocator/poison.hpp>

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

std::optional<Arena::Extension> Arena::best_extension(std::size_t size, std::size_t pages,
                                                      bool may_move) const noexcept {
    std::optional<Extension> best;
    const auto consider = [&](const Extension& other) {
        if (other.pages > other.hole->size / granularity_) return;
        std::size_t needed = other.pages;
        // The pages of what becomes part of it can't be put into the hole.
        if (may_move && other.before) needed += granules(*other.before).count;
        if (may_move && other.after) needed += granules(*other.after).count;
        if (needed > pages) return;
        const bool better =
            !best || other.pages < best->pages || (other.pages == best->pages && other.hole->data < best->hole->data);
        if (better) best = other;
    };
    const auto pages_beside = [&](std::size_t bytes) {
        return size > bytes ? (size - bytes + granularity_ - 1) / granularity_ : 0;
    };
    for (Block* hole = holes_; hole; hole = hole->next) {
        const Block* const before = is_free(hole->before) ? hole->before : nullptr;
        const Block* const after = is_free(hole->after) ? hole->after : nullptr;
        if (!before && !after) consider({hole, pages_beside(0), nullptr, nullptr});
        if (before) consider({hole, pages_beside(before->size), before, nullptr});
        if (after) consider({hole, pages_beside(after->size), nullptr, after});
        if (before && after && size <= before->size + hole->size + after->size) {
            consider({hole, hole->size / granularity_, before, after});
        }
    }
    return best;
}

void Arena::extend(const Extension& extension) {
    Block* block = extension.hole;
    const std::size_t bytes = extension.pages * granularity_;
    const bool at_end = extension.after && !extension.before;
    const std::size_t offset = at_end ? block->size - bytes : 0;
    const std::size_t first = static_cast<std::size_t>(block->data + offset - begin_) / granularity_;
    if (pages_.size() < first + extension.pages) pages_.resize(first + extension.pages);
    supply_.map(begin_ + first * granularity_, std::span(pages_).subspan(first, extension.pages));
    mapped_ += bytes;
    if (touchable_) poison(begin_ + first * granularity_, bytes);

    remove_hole(block);
    if (offset > 0) {
        Block* const end = split(block, offset);
        add_hole(block);
        block = end;
    } else if (block->size > bytes) {
        add_hole(split(block, bytes));
    }
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
    supply_.unmap(begin, std::span(pages_).subspan(taken.first, taken.count));
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
            if (taken.count == 0 || (kept && kept->uses(block))) return true;
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

std::size_t Arena::free_pages() noexcept {
    std::size_t pages = 0;
    for (const auto& index : indices_) {
        if (!index) continue;
        index->for_each_from(granularity_, [&](Block* block) {
            pages += granules(*block).count;
            return true;
        });
    }
    return pages;
}

std::size_t Arena::obtainable_at(const Block& hole, std::size_t pages, bool may_move) const noexcept {
    const std::size_t room = hole.size / granularity_;
    const std::size_t before = free_bytes(hole.before);
    const std::size_t after = free_bytes(hole.after);
    const std::size_t pages_before = before && may_move ? granules(*hole.before).count : 0;
    const std::size_t pages_after = after && may_move ? granules(*hole.after).count : 0;
    // What a neighbour becomes part of, its pages can't be moved to.
    std::size_t most = before + std::min(room, pages - pages_before) * granularity_;
    most = std::max(most, after + std::min(room, pages - pages_after) * granularity_);
    if (pages >= pages_before + pages_after + room) most = std::max(most, before + hole.size + after);
    return most;
}

std::size_t Arena::largest_obtainable(std::size_t pages, bool may_move) noexcept {
    const std::size_t all = pages + (may_move ? free_pages() : 0);
    std::size_t most = largest_free();
    for (const Block* hole = holes_; hole; hole = hole->next)
        most = std::max(most, obtainable_at(*hole, all, may_move));
    return most;
}

}  // namespace headroom::memory
