// The slow way to a block: pages are made, or moved from where they are free.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/allocator/impl.hpp>

namespace headroom::memory {

bool DeviceMemory::Impl::grow(Arena& arena, std::size_t size, const Shard* locked) {
    if (grow_range(arena, size, locked)) return true;
    if (&arena != &common_) return false;
    for (const auto& range : more_) {
        if (grow_range(*range, size, locked)) return true;
    }
    // Live blocks may stand in all of the addresses, a page each: the rest of the pages needs others.
    const auto has_addresses = [&](const Arena& range) { return range.best_extension(size, SIZE_MAX, false); };
    if (has_addresses(common_)) return false;
    if (std::any_of(more_.begin(), more_.end(), [&](const auto& range) { return has_addresses(*range); })) return false;
    if (all_pages(supply_.left()) < (size + supply_.granularity() - 1) / supply_.granularity()) return false;
    try {
        more_.push_back(std::make_unique<Arena>(supply_, blocks_, 0));
    } catch (const DeviceError&) {
        return false;
    }
    if (grow_range(*more_.back(), size, locked)) return true;
    more_.pop_back();
    return false;
}

/// Pages that are spare, may be made or lie in free blocks that may be moved.
std::size_t DeviceMemory::Impl::all_pages(std::size_t fresh) {
    std::size_t pages = supply_.spare() + fresh;
    for (Arena* movable : movable_arenas()) pages += movable->free_pages();
    return pages;
}

bool DeviceMemory::Impl::grow_range(Arena& arena, std::size_t size, const Shard* locked) {
    // The device may have less than the budget: then only the pages that there are count.
    if (grow_by(supply_.left(), arena, size, locked)) return true;
    return supply_.left() > 0 && grow_by(0, arena, size, locked);
}

bool DeviceMemory::Impl::grow_by(std::size_t fresh, Arena& arena, std::size_t size, const Shard* locked) {
    std::optional<Arena::Extension> extension = arena.best_extension(size, all_pages(fresh), may_move(arena));
    if (!extension) return false;
    if (extension->pages > supply_.spare()) {
        const std::size_t missing = extension->pages - supply_.spare();
        const std::size_t preferred = std::min(fresh, pages_within_slack(size, locked));
        if (missing > preferred) gather(missing - preferred, &arena, &*extension, locked);
        if (!supply_.provide(extension->pages)) return false;
        // What was moved may have made holes larger; the best one now takes no more pages than the best one before.
        extension = arena.best_extension(size, supply_.spare(), false);
    }
    blocks_.prepare(4);
    arena.extend(*extension);
    return true;
}

std::size_t DeviceMemory::Impl::pages_within_slack(std::size_t size, const Shard* locked) const {
    const AllShards all(*this, locked);
    const std::size_t peak = std::max(peaks_.highest(), live_unlocked() + size);
    const double most = static_cast<double>(peak) * (1 + options_.slack);
    const double left = most - static_cast<double>(supply_.reserved());
    return left > 0 ? static_cast<std::size_t>(left / static_cast<double>(supply_.granularity())) : 0;
}

void DeviceMemory::Impl::gather(std::size_t count, const Arena* wanting, const Arena::Extension* kept,
                                const Shard* locked) {
    const std::size_t wanted = supply_.spare() + count;
    for (Arena* arena : movable_arenas()) {
        if (supply_.spare() >= wanted) return;
        arena->gather(wanted - supply_.spare(), arena == wanting ? kept : nullptr,
                      [&](const Block& block) { synchronize(block.pending, locked); });
    }
}

void DeviceMemory::Impl::synchronize(const PendingSet& pending, const Shard* locked) {
    pending.for_each([&](StreamId stream, Ticket ticket) {
        Shard& shard = *shards_[stream].load(std::memory_order_relaxed);
        std::unique_lock<SpinLock> guard(shard.lock, std::defer_lock);
        if (&shard != locked) guard.lock();
        driver_->synchronize(shard.log.find(ticket).event);
        ++synchronizations_;
    });
}

std::vector<Arena*> DeviceMemory::Impl::movable_arenas() {
    std::vector<Arena*> arenas{&common_};
    for (const auto& range : more_) arenas.push_back(range.get());
    for (auto& [id, pool] : pools_) {
        if (!pool.open) arenas.push_back(pool.arena.get());
    }
    return arenas;
}

std::size_t DeviceMemory::Impl::trim() {
    const Lock guard(lock_);
    const std::size_t before = supply_.reserved();
    drain_all(nullptr);
    gather(std::numeric_limits<std::size_t>::max() / 2, nullptr, nullptr, nullptr);
    supply_.destroy_spare();
    std::erase_if(more_, [](const auto& range) { return range->mapped() == 0; });
    std::erase_if(pools_, [](const auto& entry) { return !entry.second.open && entry.second.blocks == 0; });
    return before - supply_.reserved();
}

PoolId DeviceMemory::Impl::open_pool() {
    const Lock guard(lock_);
    auto arena = std::make_unique<Arena>(supply_, blocks_, last_pool_ + 1);
    pools_.emplace(last_pool_ + 1, Pool{std::move(arena)});
    return ++last_pool_;
}

void DeviceMemory::Impl::close_pool(PoolId id) {
    const Lock guard(lock_);
    const auto pool = pools_.find(id);
    if (pool == pools_.end() || !pool->second.open) {
        throw Error(fmt::format("close_pool: pool {} is not open; use a number that open_pool() returned", id));
    }
    pool->second.open = false;
    if (pool->second.blocks == 0) end_pool(pool, nullptr);
}

void DeviceMemory::Impl::leave_pool(PoolId id, const Shard* locked) noexcept {
    const auto pool = pools_.find(id);
    if (--pool->second.blocks == 0 && !pool->second.open) end_pool(pool, locked);
}

void DeviceMemory::Impl::end_pool(std::map<PoolId, Pool>::iterator pool, const Shard* locked) noexcept {
    try {
        pool->second.arena->gather(std::numeric_limits<std::size_t>::max() / 2, nullptr,
                                   [&](const Block& block) { synchronize(block.pending, locked); });
    } catch (...) {
        return;  // its pages are taken when they are wanted, or by `trim`
    }
    pools_.erase(pool);
}

}  // namespace headroom::memory
