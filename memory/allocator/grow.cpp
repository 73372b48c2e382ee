// The slow way to a block: pages are made, or moved from where they are free.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <headroom/memory/allocator/impl.hpp>

namespace headroom {

bool DeviceMemory::Impl::grow(Arena& arena, std::size_t size, const Shard* locked) {
    blocks_.prepare(4);
    std::optional<Arena::Extension> extension = arena.best_extension(size);
    if (!extension) return false;
    const std::size_t spare = supply_.spare();
    if (extension->pages > spare) {
        const std::size_t missing = extension->pages - spare;
        const std::size_t fresh = std::min(supply_.left(), pages_within_slack(size, locked));
        if (missing > fresh) gather(missing - fresh, &arena, &*extension, locked);
        if (!supply_.provide(extension->pages)) {
            gather(extension->pages - supply_.spare(), &arena, &*extension, locked);
            if (supply_.spare() < extension->pages) return false;
        }
        // What was moved may have made holes larger; the best one now takes no more pages than the best one before.
        extension = arena.best_extension(size);
        blocks_.prepare(4);
    }
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
                      [&](const Block& block) { synchronize(block, locked); });
    }
}

void DeviceMemory::Impl::synchronize(const Block& block, const Shard* locked) {
    block.pending.for_each([&](StreamId stream, Ticket ticket) {
        Shard& shard = *shards_[stream].load(std::memory_order_relaxed);
        std::unique_lock<SpinLock> guard(shard.lock, std::defer_lock);
        if (&shard != locked) guard.lock();
        driver_->synchronize(shard.log.find(ticket).event);
        ++synchronizations_;
    });
}

std::vector<Arena*> DeviceMemory::Impl::movable_arenas() {
    std::vector<Arena*> arenas{&common_};
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
    if (pool->second.blocks == 0) end_pool(pool);
}

void DeviceMemory::Impl::leave_pool(PoolId id) {
    const auto pool = pools_.find(id);
    if (--pool->second.blocks == 0 && !pool->second.open) end_pool(pool);
}

void DeviceMemory::Impl::end_pool(std::map<PoolId, Pool>::iterator pool) {
    pool->second.arena->gather(std::numeric_limits<std::size_t>::max() / 2, nullptr,
                               [&](const Block& block) { synchronize(block, nullptr); });
    pools_.erase(pool);
}

}  // namespace headroom
