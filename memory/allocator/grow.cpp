// The slow way to a block: pages are made, or moved from where they are free.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/allocator/internal/impl.hpp>

namespace headroom::memory {

Block* DeviceMemory::Impl::make_room(Pool& pool, const Request& request) {
    const auto preferred = apart(request) ? Pool::kSmall : Pool::kLarge;
    const auto other = preferred == Pool::kLarge ? Pool::kSmall : Pool::kLarge;
    // What it grows by may become part of a block that the stream can't wait for, since a merged block knows the events
    // of three streams only: then it grows elsewhere.
    while (grow(pool, preferred, request)) {
        if (Block* block = find(pool, preferred, request)) return block;
    }
    if (Block* block = find(pool, other, request)) return block;
    const auto& others = pool.ranges[other];
    const bool grown =
        std::any_of(others.begin(), others.end(), [&](const auto& range) { return grow_range(*range, request); });
    return grown ? find(pool, other, request) : nullptr;
}

std::unique_ptr<Arena> DeviceMemory::Impl::make_range(PoolId pool, Pool::SizeClass size_class) {
    constexpr std::size_t kPartForSmall = 8;  // of the addresses; if it does not suffice, ranges are added
    const auto can_wait = [this](const PendingSet& pending, StreamId stream) {
        return this->can_wait(pending, stream);
    };
    const std::size_t page = supply_.granularity();
    for (std::size_t whole = range_bytes_;; whole = whole / 2 / page * page) {
        const std::size_t bytes = size_class == Pool::kLarge ? whole : std::max(whole / kPartForSmall, page);
        try {
            auto range = std::make_unique<Arena>(supply_, blocks_, pool, bytes, can_wait);
            range_bytes_ = whole;
            return range;
        } catch (const DeviceError&) {  // as many are not left; without a limit, what there are suffice
            if (whole / 2 < (limit_ > 0 ? supply_.budget() : page)) throw;
        }
    }
}

bool DeviceMemory::Impl::grow(Pool& pool, Pool::SizeClass size_class, const Request& request) {
    Pool::Ranges& ranges = pool.ranges[size_class];
    for (const auto& range : ranges) {
        if (grow_range(*range, request)) return true;
    }
    // Live blocks may stand in all of the addresses, a page each: the rest of the pages needs others.
    if (pool.id != 0 && !ranges.empty()) return false;
    const bool has_addresses = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
        return range->best_extension({request.size, request.stream, SIZE_MAX, false}).has_value();
    });
    if (has_addresses) return false;
    const std::size_t page = supply_.granularity();
    if (all_pages(supply_.left()) < (request.size + page - 1) / page) return false;
    try {
        ranges.push_back(make_range(pool.id, size_class));
    } catch (const DeviceError&) {
        return false;
    }
    if (grow_range(*ranges.back(), request)) return true;
    ranges.pop_back();
    return false;
}

/// Pages that are spare, may be made or lie in free blocks that may be moved.
std::size_t DeviceMemory::Impl::all_pages(std::size_t fresh) {
    std::size_t pages = supply_.spare() + fresh;
    for (Arena* movable : movable_arenas()) pages += movable->free_pages();
    return pages;
}

bool DeviceMemory::Impl::grow_range(Arena& arena, const Request& request) {
    // The device may have less than the budget: then only the pages that there are count.
    if (grow_by(supply_.left(), arena, request)) return true;
    return supply_.left() > 0 && grow_by(0, arena, request);
}

bool DeviceMemory::Impl::grow_by(std::size_t fresh, Arena& arena, const Request& request) {
    std::optional<Arena::Extension> extension =
        arena.best_extension({request.size, request.stream, all_pages(fresh), may_move(arena)});
    if (!extension) return false;
    if (extension->pages > supply_.spare()) {
        const std::size_t missing = extension->pages - supply_.spare();
        const std::size_t preferred = std::min(fresh, pages_within_slack(request.size));
        if (missing > preferred) gather(missing - preferred, &arena, &*extension);
        if (!supply_.provide(extension->pages)) return false;
        // What was moved may have made holes larger; the best one now takes no more pages than the best one before.
        extension = arena.best_extension({request.size, request.stream, supply_.spare(), false});
    }
    blocks_.prepare(4);
    arena.extend(*extension);
    return true;
}

std::size_t DeviceMemory::Impl::pages_within_slack(std::size_t size) const {
    const AllShards all(*this);
    const std::size_t peak = std::max(peaks_.highest(), live_unlocked() + size);
    const double most = static_cast<double>(peak) * (1 + options_.slack);
    const double left = most - static_cast<double>(supply_.reserved());
    return left > 0 ? static_cast<std::size_t>(left / static_cast<double>(supply_.granularity())) : 0;
}

void DeviceMemory::Impl::gather(std::size_t count, const Arena* wanting, const Arena::Extension* kept) {
    const std::size_t wanted = supply_.spare() + count;
    for (Arena* arena : movable_arenas()) {
        if (supply_.spare() >= wanted) return;
        arena->gather(wanted - supply_.spare(), arena == wanting ? kept : nullptr,
                      [&](const Block& block) { synchronize(block.pending); });
    }
}

bool DeviceMemory::Impl::can_wait(const PendingSet& pending, StreamId stream) const {
    bool all = true;
    pending.for_each([&](StreamId other, Ticket ticket) {
        if (other != stream) all = all && shards_[other].load(std::memory_order_relaxed)->log.waitable(ticket);
    });
    return all;
}

void DeviceMemory::Impl::synchronize(const PendingSet& pending) {
    pending.for_each([&](StreamId stream, Ticket ticket) {
        Shard& shard = *shards_[stream].load(std::memory_order_relaxed);
        if (ticket == PendingSet::kNewest) ticket = shard.log.newest();
        if (ticket > shard.host_seen) throw MustWait{shard, ticket};
    });
}

std::vector<Arena*> DeviceMemory::Impl::movable_arenas() {
    std::vector<Arena*> arenas;
    for_each_pool([&](const Pool& pool) {
        if (!pool.open) pool.for_each([&](Arena& arena) { arenas.push_back(&arena); });
    });
    return arenas;
}

std::size_t DeviceMemory::Impl::trim() {
    return locked([&] { return trim_locked(); });
}

std::size_t DeviceMemory::Impl::trim_locked() {
    const std::size_t before = supply_.reserved();
    drain_all();
    gather(std::numeric_limits<std::size_t>::max() / 2, nullptr, nullptr);
    supply_.destroy_spare();
    for (Pool::Ranges& ranges : common_.ranges) {
        // One address range stays for good.
        const Arena* const first = common_.ranges[Pool::kLarge].front().get();
        std::erase_if(ranges, [&](const auto& range) { return range.get() != first && range->mapped() == 0; });
    }
    std::erase_if(pools_, [](const auto& entry) { return entry.second.ended(); });
    return before - supply_.reserved();
}

void DeviceMemory::Impl::set_limit(std::size_t bytes) {
    locked([&] {
        supply_.set_budget(budget_of(properties_, bytes, options_.reserve));
        limit_.store(bytes, std::memory_order_relaxed);
        give_up_excess();
    });
}

void DeviceMemory::Impl::give_up_excess() {
    if (supply_.excess() == 0) return;
    drain_all();
    if (supply_.excess() > supply_.spare()) gather(supply_.excess() - supply_.spare(), nullptr, nullptr);
    supply_.destroy_excess();
}

PoolId DeviceMemory::Impl::open_pool() {
    const SlowLock guard(lock_);
    const PoolId id = last_pool_ + 1;
    Pool pool;
    pool.id = id;
    pool.open = true;
    pool.ranges[Pool::kLarge].push_back(make_range(id, Pool::kLarge));
    pools_.emplace(id, std::move(pool));
    return last_pool_ = id;
}

void DeviceMemory::Impl::close_pool(PoolId id) {
    {
        const SlowLock guard(lock_);
        const auto pool = pools_.find(id);
        if (pool == pools_.end() || !pool->second.open) {
            throw Error(fmt::format("close_pool: pool {} is not open; use a number that open_pool() returned", id));
        }
        pool->second.open = false;
    }
    end_pool(id);
}

void DeviceMemory::Impl::end_pool(PoolId id) noexcept {
    try {
        locked([&] {
            const auto pool = pools_.find(id);
            if (pool == pools_.end() || pool->second.open || pool->second.blocks > 0) return;
            pool->second.for_each([&](Arena& arena) {
                arena.gather(std::numeric_limits<std::size_t>::max() / 2, nullptr,
                             [&](const Block& block) { synchronize(block.pending); });
            });
            if (pool->second.ended()) pools_.erase(pool);
        });
    } catch (...) {  // its pages are taken when they are wanted, or by `trim`
    }
}

}  // namespace headroom::memory
