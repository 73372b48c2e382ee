#include <headroom/memory/device_memory.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <headroom/memory/allocator/accounting.hpp>
#include <headroom/memory/allocator/arena.hpp>
#include <headroom/memory/allocator/poison.hpp>
#include <headroom/memory/allocator/spin_lock.hpp>

namespace headroom {

namespace {

/// What may be committed: whole granules within both the limit and the device.
std::size_t budget_of(const DriverProperties& properties, std::size_t limit) {
    const std::size_t bytes = limit ? std::min(limit, properties.total_bytes) : properties.total_bytes;
    return bytes / properties.granularity * properties.granularity;
}

}  // namespace

class DeviceMemory::Impl {
  public:
    Impl(DeviceMemory* self, std::unique_ptr<Driver> driver, MemoryOptions options)
        : self_(self),
          driver_(std::move(driver)),
          properties_(driver_->properties()),
          options_(options),
          supply_(*driver_, budget_of(properties_, options.limit)),
          common_(supply_, blocks_) {}

    Allocation allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool) {
        const std::lock_guard guard(lock_);
        check(stream, tag);
        const std::size_t mask = properties_.alignment - 1;
        const std::size_t size = bytes ? (bytes + mask) & ~mask : properties_.alignment;
        blocks_.prepare(2);
        Arena& arena = pool == 0 ? common_ : private_arena(pool);
        // A request near 2^64 wraps to less than itself.
        if (size < bytes || size > properties_.address_bytes) throw OutOfMemory(report(bytes, bytes, tag, arena));
        Block* block = arena.take(size, stream);
        if (!block) block = take_slowly(arena, bytes, size, stream, tag);
        block->bytes = bytes;
        block->memory = self_;
        block->category = tag.category;
        block->path = tag.path;
        accounting_.allocated(tag, bytes, size);
        if (properties_.touchable) unpoison(block->data, bytes);
        return {block->data, block, size};
    }

    void deallocate(Block* block) noexcept {
        if (!block) return;
        const std::lock_guard guard(lock_);
        if (!block->live) {
            fmt::print(stderr, "headroom: a block of {} was given back twice\n", properties_.name);
            std::abort();
        }
        accounting_.freed({block->category, block->path}, block->bytes, block->size);
        if (properties_.touchable) poison(block->data, block->size);
        block->arena->give_back(block);
    }

    PathId intern(std::string_view path) {
        const std::lock_guard guard(lock_);
        return accounting_.paths().intern(path);
    }

    std::string path(PathId id) const {
        const std::lock_guard guard(lock_);
        if (!accounting_.paths().knows(id)) throw Error(fmt::format("path: {} is no number of a module path", id));
        return accounting_.paths().name(id);
    }

    MemoryStatistics statistics() const {
        const std::lock_guard guard(lock_);
        return statistics_unlocked();
    }

    std::vector<std::pair<std::string, std::size_t>> largest_paths(std::size_t count) const {
        const std::lock_guard guard(lock_);
        return accounting_.paths().largest(count);
    }

    void reset_peak() {
        const std::lock_guard guard(lock_);
        accounting_.reset_peak();
        supply_.reset_peak();
    }

    std::size_t trim() {
        const std::lock_guard guard(lock_);
        return trim_all_but(nullptr);
    }

    const DriverProperties& properties() const { return properties_; }
    std::size_t limit() const { return options_.limit; }

  private:
    void check(StreamId stream, Tag tag) const {
        if (stream >= Arena::kMaxStreams) {
            throw DeviceError(fmt::format(
                "allocate: stream {} is outside of the {} streams of one device's memory; use fewer streams", stream,
                Arena::kMaxStreams));
        }
        if (!accounting_.paths().knows(tag.path)) {
            throw Error(fmt::format("allocate: path number {} is unknown; intern() paths with the same DeviceMemory",
                                    tag.path));
        }
    }

    Arena& private_arena(PoolId pool) {
        std::unique_ptr<Arena>& arena = private_[pool];
        if (!arena) arena = std::make_unique<Arena>(supply_, blocks_);
        return *arena;
    }

    Block* take_slowly(Arena& arena, std::size_t bytes, std::size_t size, StreamId stream, Tag tag) {
        // What other pools keep unused at their ends may be what is missing; this one's end is extended anyway.
        if (arena.grow(size, stream) || (trim_all_but(&arena) > 0 && arena.grow(size, stream))) {
            return arena.take(size, stream);
        }
        throw OutOfMemory(report(bytes, size, tag, arena));
    }

    std::size_t trim_all_but(const Arena* kept) noexcept {
        std::size_t bytes = &common_ != kept ? common_.trim() : 0;
        for (const auto& [pool, arena] : private_) {
            if (arena && arena.get() != kept) bytes += arena->trim();
        }
        return bytes;
    }

    MemoryStatistics statistics_unlocked() const {
        MemoryStatistics statistics = accounting_.statistics();
        statistics.reserved = supply_.reserved();
        statistics.peak_reserved = supply_.peak_reserved();
        statistics.driver_calls = supply_.driver_calls();
        return statistics;
    }

    MemoryReport report(std::size_t bytes, std::size_t size, Tag tag, const Arena& arena) const {
        MemoryReport report;
        report.device = properties_.name;
        report.requested = bytes;
        report.rounded = size;
        report.tag = tag;
        report.path = accounting_.paths().name(tag.path);
        report.limit = options_.limit;
        report.device_total = properties_.total_bytes;
        report.device_free = driver_->free_bytes();
        report.statistics = statistics_unlocked();
        report.largest_free_block = arena.largest_free();
        report.largest_paths = accounting_.paths().largest(10);
        return report;
    }

    DeviceMemory* self_;
    mutable SpinLock lock_;
    std::unique_ptr<Driver> driver_;
    const DriverProperties properties_;
    const MemoryOptions options_;
    Accounting accounting_;
    BlockPool blocks_;
    PageSupply supply_;
    Arena common_;
    std::map<PoolId, std::unique_ptr<Arena>> private_;  ///< ordered, so that trimming is deterministic
};

DeviceMemory::DeviceMemory(std::unique_ptr<Driver> driver, MemoryOptions options)
    : impl_(std::make_unique<Impl>(this, std::move(driver), options)) {}
DeviceMemory::~DeviceMemory() = default;

Allocation DeviceMemory::allocate(std::size_t bytes, StreamId stream, Tag tag, PoolId pool) {
    return impl_->allocate(bytes, stream, tag, pool);
}
void DeviceMemory::deallocate(Block* block) noexcept { impl_->deallocate(block); }
PathId DeviceMemory::intern(std::string_view path) { return impl_->intern(path); }
std::string DeviceMemory::path(PathId id) const { return impl_->path(id); }
MemoryStatistics DeviceMemory::statistics() const { return impl_->statistics(); }
std::vector<std::pair<std::string, std::size_t>> DeviceMemory::largest_paths(std::size_t count) const {
    return impl_->largest_paths(count);
}
void DeviceMemory::reset_peak() { impl_->reset_peak(); }
std::size_t DeviceMemory::trim() { return impl_->trim(); }
const DriverProperties& DeviceMemory::properties() const { return impl_->properties(); }
std::size_t DeviceMemory::limit() const { return impl_->limit(); }

}  // namespace headroom
