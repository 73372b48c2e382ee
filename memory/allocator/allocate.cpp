#include <algorithm>

#include <fmt/format.h>

#include <headroom/memory/allocator/internal/impl.hpp>
#include <headroom/memory/allocator/internal/poison.hpp>

namespace headroom::memory {

Allocation DeviceMemory::Impl::allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool) {
    const std::size_t size = rounded(bytes);
    if (pool == 0 && stream < Arena::kMaxStreams) {
        if (Shard* shard = shards_[stream].load(std::memory_order_acquire)) {
            const Lock guard(shard->lock);
            if (shard->ledger.counts(tag) && shard->ledger.live() + size <= shard->ledger.quota) {
                if (Block* block = shard->cache.pop(size)) return hand_out(block, bytes, tag, *shard);
            }
        }
    }
    return allocate_slowly({bytes, size, stream, tag, pool});
}

Allocation DeviceMemory::Impl::hand_out(Block* block, std::size_t bytes, Tag tag, Shard& shard) noexcept {
    block->state = BlockState::live;
    block->bytes = bytes;
    block->memory = self_;
    block->category = tag.category;
    block->path = tag.path;
    // Keeps GCC from moving both numbers at once: the tag was just written in other halves, and a load across two
    // writes waits for the cache, 8 ns of a hit's 28.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    block->op = tag.op;
    shard.ledger.allocated(tag, bytes, block->size);
    if (properties_.touchable) unpoison(block->data, bytes);
    if (history_) note(MemoryEvent::Kind::allocate, *block);
    return {block->data, block, block->size};
}

Allocation DeviceMemory::Impl::allocate_slowly(const Request& request) {
    while (true) {
        try {
            return locked([&] { return allocate_locked(request); });
        } catch (const OutOfMemory& error) {
            if (!try_again(request, error.report())) throw;
        }
    }
}

bool DeviceMemory::Impl::try_again(const Request& request, const MemoryReport& report) {
    const std::thread::id self = std::this_thread::get_id();
    std::function<bool(const MemoryReport&)> handler;
    {
        const SlowLock guard(lock_);
        const bool nested = std::find(handling_.begin(), handling_.end(), self) != handling_.end();
        if (!nested && handler_) {
            handler = handler_;
            handling_.push_back(self);
        }
    }
    // `count` is null where the handler threw something of its own.
    const auto leave = [&](std::uint64_t* count) {
        const SlowLock guard(lock_);
        if (handler) std::erase(handling_, self);
        if (count) ++*count;
        if (count == &retries_ || !history_) return;
        history_->add({.bytes = request.size,
                       .requested = request.bytes,
                       .step = step_.load(std::memory_order_relaxed),
                       .path = request.tag.path,
                       .op = request.tag.op,
                       .stream = request.stream,
                       .pool = request.pool,
                       .kind = MemoryEvent::Kind::out_of_memory,
                       .category = request.tag.category});
    };
    bool again = false;
    try {
        again = handler && handler(report);
    } catch (const OutOfMemory&) {
        leave(&refusals_);
        throw;
    } catch (...) {
        leave(nullptr);
        throw;
    }
    leave(again ? &retries_ : &refusals_);
    return again;
}

void DeviceMemory::Impl::on_out_of_memory(std::function<bool(const MemoryReport&)> handler) {
    const SlowLock guard(lock_);
    handler_.swap(handler);
}

Allocation DeviceMemory::Impl::allocate_locked(const Request& request) {
    check(request);
    Shard& shard = shard_for(request.stream);
    {
        const Lock shard_guard(shard.lock);
        shard.ledger.know_paths(paths_.size());
    }
    Pool& pool = request.pool == 0 ? common_ : pools_.at(request.pool);
    Block* block = obtain(request, pool, shard);
    if (pool.id != 0) ++pool.blocks;
    {
        const Lock shard_guard(shard.lock);
        if (shard.ledger.live() + block->size <= shard.ledger.quota) {
            return hand_out(block, request.bytes, request.tag, shard);
        }
    }
    const AllShards all(*this);
    const Allocation allocation = hand_out(block, request.bytes, request.tag, shard);
    raise_peak(request.tag);
    return allocation;
}

void DeviceMemory::Impl::check(const Request& request) const {
    if (request.stream >= Arena::kMaxStreams) {
        throw DeviceError(
            fmt::format("allocate: stream {} is out of range, a DeviceMemory has at most {} streams; use fewer streams",
                        request.stream, Arena::kMaxStreams));
    }
    if (const PathId last = std::max(request.tag.path, request.tag.op); !paths_.knows(last)) {
        throw Error(
            fmt::format("allocate: path number {} is unknown; intern() paths with the same DeviceMemory", last));
    }
    if (request.tag.category > kNoCategory) {
        throw Error(fmt::format("allocate: category {} is out of range, a DeviceMemory has at most {} categories",
                                request.tag.category, kMaxCategories));
    }
    if (request.pool == 0) return;
    const auto pool = pools_.find(request.pool);
    if (pool == pools_.end() || !pool->second.open) {
        throw Error(fmt::format("allocate: pool {} is not open; use a number that open_pool() returned", request.pool));
    }
}

Shard& DeviceMemory::Impl::shard_for(StreamId stream) {
    if (Shard* shard = shards_[stream].load(std::memory_order_relaxed)) return *shard;
    auto fresh = std::make_unique<Shard>(*driver_, stream);
    fresh->ledger.know_paths(paths_.size());
    shard_list_.reserve(shard_list_.size() + 1);
    Shard& shard = *fresh;
    shard_list_.push_back(std::move(fresh));
    shards_[stream].store(&shard, std::memory_order_release);
    return shard;
}

Block* DeviceMemory::Impl::obtain(const Request& request, Pool& pool, Shard& shard) {
    if (pool.id == 0) {
        const Lock guard(shard.lock);
        if (Block* block = shard.cache.pop(request.size)) return block;
    }
    give_up_excess();
    drain(shard);
    // A request near 2^64 wraps to less than itself.
    const bool possible = request.size >= request.bytes && request.size <= properties_.address_bytes;
    Block* block = possible ? find(pool, request) : nullptr;
    if (!block) {
        drain_all();
        block = possible ? find(pool, request) : nullptr;
    }
    if (!block && possible) block = make_room(pool, request);
    if (!block) throw OutOfMemory(report(request, pool));
    blocks_.prepare(1);
    block->arena->prepare(request.stream);
    wait_for_others(block->pending, shard);
    block->arena->take(block, request.size, request.stream);
    return block;
}

Block* DeviceMemory::Impl::find(const Pool& pool, const Request& request) const {
    if (Pool::class_of(request.size, supply_.granularity()) == Pool::kSmall) {
        if (Block* block = find(pool, Pool::kSmall, request)) return block;
        if (apart(request)) return nullptr;
    }
    return find(pool, Pool::kLarge, request);
}

/// Pages of their own may cost small blocks what the slack allows, not more. Beyond, they lie among the large ones.
bool DeviceMemory::Impl::apart(const Request& request) const {
    const bool small = Pool::class_of(request.size, supply_.granularity()) == Pool::kSmall;
    return small && supply_.left() > 0 && pages_within_slack(request.size) > 0;
}

Block* DeviceMemory::Impl::find(const Pool& pool, Pool::SizeClass size_class, const Request& request) const {
    for (const auto& range : pool.ranges[size_class]) {
        if (Block* block = range->find(request.size, request.stream)) return block;
    }
    return nullptr;
}

void DeviceMemory::Impl::wait_for_others(const PendingSet& pending, Shard& shard) {
    pending.for_each([&](StreamId other, Ticket ticket) {
        if (other == shard.stream) return;
        if (ticket != 0 && ticket <= shard.seen[other]) return;
        Shard& theirs = *shards_[other].load(std::memory_order_relaxed);
        // A graph may not depend on work outside of it, so the host waits in its place.
        if (driver_->capturing(shard.stream)) {
            if (ticket == PendingSet::kNewest) ticket = theirs.log.newest();
            if (ticket > theirs.host_seen) throw MustWait{theirs, ticket};
            return;
        }
        const HeldEvent held(theirs.log, ticket);
        if (held.entry.ticket <= shard.seen[other]) return;
        driver_->wait(shard.stream, held.entry.event);
        shard.seen[other] = held.entry.ticket;
    });
}

void DeviceMemory::Impl::drain(Shard& shard) {
    const Lock guard(shard.lock);
    drain_locked(shard);
}

void DeviceMemory::Impl::drain_locked(Shard& shard) {
    shard.cache.drain([&](Block* block) { return_to_arena(block, shard); });
}

void DeviceMemory::Impl::drain_all() {
    for (const auto& shard : shard_list_) drain(*shard);
}

void DeviceMemory::Impl::return_to_arena(Block* block, Shard& shard) noexcept {
    if (!properties_.synchronous) block->pending.add(shard.stream, shard.log.next());
    block->arena->give_back(block);
}

/// Live bytes are more than a shard may have on its own: the sum over all streams may be a new peak.
void DeviceMemory::Impl::raise_peak(Tag tag) noexcept {
    const std::size_t live = live_unlocked();
    if (peaks_.reach(live)) {
        peak_tag_ = tag;
        for (const auto& each : shard_list_) each->ledger.mark_peak();
    }
    share_quota();
}

/// Whatever each stream adds within its quota, no peak is missed.
void DeviceMemory::Impl::share_quota() noexcept {
    const std::size_t slack = peaks_.lowest() - live_unlocked();
    for (const auto& each : shard_list_) each->ledger.quota = each->ledger.live() + slack / shard_list_.size();
}

void DeviceMemory::Impl::deallocate(Block* block) {
    if (!block) return;
    // What is no block of ours, or not live, is named on the slow way.
    const bool known = blocks_.contains(block) && block->stream < Arena::kMaxStreams;
    Shard* const shard = known ? shards_[block->stream].load(std::memory_order_acquire) : nullptr;
    if (shard) {
        const Lock guard(shard->lock);
        const bool quick = block->state == BlockState::live && !block->used_elsewhere && block->arena->pool() == 0 &&
                           shard->cache.has_room(block->size);
        if (quick) {
            account_free(block, *shard);
            block->state = BlockState::cached;
            shard->cache.push(block);
            return;
        }
    }
    deallocate_slowly(block);
}

void DeviceMemory::Impl::account_free(Block* block, Shard& shard) noexcept {
    shard.ledger.freed({block->category, block->path}, block->bytes, block->size);
    const bool of_graphs = block->arena->pool() != 0;  // which use it again and again, without allocating it
    if (properties_.touchable && !of_graphs) poison(block->data, block->size);
    if (history_) note(MemoryEvent::Kind::free, *block);
}

void DeviceMemory::Impl::deallocate_slowly(Block* block) {
    PoolId pool = 0;
    {
        const SlowLock guard(lock_);
        check_live(block, "deallocate");
        pool = block->arena->pool();
        return_slowly(block);
    }
    if (pool != 0) end_pool(pool);
}

void DeviceMemory::Impl::return_slowly(Block* block) {
    Shard& shard = shard_for(block->stream);
    {
        const Lock shard_guard(shard.lock);
        account_free(block, shard);
        block->state = BlockState::cached;
    }
    if (block->used_elsewhere) {
        PendingSet pending;
        block->pending.for_each([&](StreamId other, Ticket) {
            pending.add(other, shards_[other].load(std::memory_order_relaxed)->log.try_record());
        });
        block->pending = pending;
        block->used_elsewhere = false;
    }
    if (!properties_.synchronous) block->pending.add(shard.stream, shard.log.next());
    Arena& arena = *block->arena;
    arena.give_back(block);
    if (arena.pool() != 0) --pools_.at(arena.pool()).blocks;
}

void DeviceMemory::Impl::record_use(Block* block, StreamId stream) {
    if (!block) return;
    const SlowLock guard(lock_);
    check_live(block, "record_use");
    if (stream >= Arena::kMaxStreams) {
        throw DeviceError(fmt::format("record_use: stream {} is out of range, a DeviceMemory has at most {} streams",
                                      stream, Arena::kMaxStreams));
    }
    if (properties_.synchronous || stream == block->stream) return;
    shard_for(stream);
    Shard& shard = shard_for(block->stream);
    const Lock shard_guard(shard.lock);
    block->pending.add(stream, 0);  // the event is recorded when the block is given back
    block->used_elsewhere = true;
}

void DeviceMemory::Impl::check_live(const Block* block, const char* call) const {
    if (!blocks_.contains(block)) {
        throw Error(fmt::format("{}: {} is not a block of the {}'s memory; pass a block that allocate() returned", call,
                                static_cast<const void*>(block), properties_.name));
    }
    if (block->state == BlockState::live) return;
    if (block->state == BlockState::cached || block->state == BlockState::free) {
        throw Error(fmt::format("{}: {} was already freed", call, name_of(*block)));
    }
    throw Error(fmt::format("{}: {} was already freed and is now part of another block", call,
                            static_cast<const void*>(block)));
}

std::string DeviceMemory::Impl::name_of(const Block& block) const {
    const std::string reason = purpose(memory::name_of(block.category, options_.categories), paths_.name(block.path));
    return fmt::format("the block of {} bytes at {} of the {}{}{}", block.bytes, static_cast<const void*>(block.data),
                       properties_.name, reason.empty() ? "" : ", ", reason);
}

void DeviceMemory::Impl::note(MemoryEvent::Kind kind, const Block& block) noexcept {
    history_->add({.address = reinterpret_cast<std::uintptr_t>(block.data),
                   .bytes = block.size,
                   .requested = block.bytes,
                   .step = step_.load(std::memory_order_relaxed),
                   .path = block.path,
                   .op = block.op,
                   .stream = block.stream,
                   .pool = block.arena->pool(),
                   .kind = kind,
                   .category = block.category});
}

}  // namespace headroom::memory
