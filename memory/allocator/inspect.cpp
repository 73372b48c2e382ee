// What the allocator tells about itself.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/allocator/internal/impl.hpp>

namespace headroom::memory {

namespace {

constexpr double kMostSlack = 1000;

std::size_t limit_of(const DriverProperties& properties, const MemoryOptions& options) {
    if (!(options.fraction > 0 && options.fraction <= 1)) {
        throw Error(fmt::format("memory options: fraction {} must be above 0 and at most 1", options.fraction));
    }
    if (!(options.slack >= 0 && options.slack <= kMostSlack)) {
        throw Error(
            fmt::format("memory options: slack {} must be at least 0 and at most {}; 0.03 allows 3 % of unused "
                        "memory",
                        options.slack, kMostSlack));
    }
    if (options.limit != 0 || options.fraction == 1) return options.limit;
    // 0 would be no limit.
    const double bytes = static_cast<double>(properties.total_bytes) * options.fraction;
    return std::max(static_cast<std::size_t>(bytes), std::size_t{1});
}

/// The figures that all else is reckoned with.
DriverProperties checked(const DriverProperties& properties) {
    const auto& [name, granularity, alignment, total, addresses, touchable, simulated, synchronous] = properties;
    if (!std::has_single_bit(alignment) || granularity == 0 || granularity % alignment != 0) {
        throw DeviceError(fmt::format("{}: alignment {} must be a power of two that divides granularity {}", name,
                                      alignment, granularity));
    }
    if (addresses < granularity) {
        throw DeviceError(fmt::format(
            "{}: address_bytes is {}, less than a page of {} bytes; set it to the addresses that one pool may reserve",
            name, addresses, granularity));
    }
    if (total < granularity) {
        throw DeviceError(
            fmt::format("{}: its memory of {} bytes is less than a page of {} bytes", name, total, granularity));
    }
    return properties;
}

MemoryOptions checked(MemoryOptions options) {
    std::set<std::string_view> names;
    for (const NamedCategory& category : options.categories) names.insert(category.name);
    if (options.categories.size() > kMaxCategories || names.size() != options.categories.size() || names.contains("")) {
        throw Error(fmt::format(
            "device memory: got {} categories with {} different names; give at most {}, each with a name of its own",
            options.categories.size(), names.size() - names.count(""), kMaxCategories));
    }
    return options;
}

}  // namespace

std::size_t DeviceMemory::Impl::budget_of(const DriverProperties& properties, std::size_t limit, std::size_t reserve) {
    if (limit != 0 && limit < properties.granularity) {
        throw Error(fmt::format(
            "memory limit: {} bytes are less than a page of {} bytes, and the {} allocates whole pages only", limit,
            properties.granularity, properties.name));
    }
    const std::size_t left = properties.total_bytes - std::min(properties.total_bytes, reserve);
    if (left < properties.granularity) {
        throw Error(fmt::format(
            "memory reserve: {} of the {}'s {} bytes are reserved, which leaves less than a page; reserve less",
            reserve, properties.name, properties.total_bytes));
    }
    const std::size_t bytes = limit ? std::min(limit, left) : left;
    return bytes / properties.granularity * properties.granularity;
}

DeviceMemory::Impl::Impl(DeviceMemory* self, std::unique_ptr<Driver> driver, MemoryOptions options)
    : self_(self),
      driver_(std::move(driver)),
      properties_(checked(driver_->properties())),
      alignment_(properties_.alignment),
      options_(checked(std::move(options))),
      limit_(limit_of(properties_, options_)),
      range_bytes_(properties_.address_bytes / properties_.granularity * properties_.granularity),
      supply_(*driver_, budget_of(properties_, limit_, options_.reserve)) {
    common_.ranges[Pool::kLarge].push_back(make_range(0, Pool::kLarge));
    supply_.observe([this](bool mapped, const std::byte* address, std::size_t bytes, PoolId pool) {
        if (!history_) return;
        history_->add({.address = reinterpret_cast<std::uintptr_t>(address),
                       .bytes = bytes,
                       .requested = bytes,
                       .step = step_.load(std::memory_order_relaxed),
                       .pool = pool,
                       .kind = mapped ? MemoryEvent::Kind::map : MemoryEvent::Kind::unmap});
    });
    if (options_.history > 0) start_history(options_.history);
}

DeviceMemory::Impl::~Impl() {
    constexpr int kNamed = 3;
    int survivors = 0;
    blocks_.for_each([&](Block& block) {
        if (block.state != BlockState::live) return;
        if (++survivors <= kNamed) {
            fmt::print(stderr, "headroom: {} is still in use while its DeviceMemory is destroyed\n", name_of(block));
        }
        block.memory = nullptr;
    });
    if (survivors > kNamed) fmt::print(stderr, "headroom: and {} more blocks\n", survivors - kNamed);
    if (survivors > 0) blocks_.abandon();
    // Work on streams may still use what was given back.
    for (const auto& shard : shard_list_) {
        try {
            if (!properties_.synchronous) driver_->synchronize(HeldEvent(shard->log, 0).entry.event);
        } catch (const Error& error) {
            fmt::print(stderr, "headroom: {}\n", error.what());
        }
    }
    supply_.observe({});
}

PathId DeviceMemory::Impl::intern(std::string_view path) {
    const SlowLock guard(lock_);
    return paths_.intern(path);
}

std::string DeviceMemory::Impl::path(PathId id) const {
    const SlowLock guard(lock_);
    if (!paths_.knows(id)) throw Error(fmt::format("path: no module path has the number {}", id));
    return paths_.name(id);
}

std::size_t DeviceMemory::Impl::live_unlocked() const noexcept {
    std::size_t live = 0;
    for (const auto& shard : shard_list_) live += shard->ledger.live();
    return live;
}

MemoryStatistics DeviceMemory::Impl::statistics_unlocked() const {
    MemoryStatistics statistics;
    for (const auto& shard : shard_list_) {
        const Ledger& ledger = shard->ledger;
        statistics.allocated += ledger.live();
        statistics.requested += ledger.requested();
        statistics.allocations += ledger.allocations();
        for (std::size_t i = 0; i < kCategoryCount; ++i) {
            statistics.allocated_by_category[i] += ledger.live_of(static_cast<CategoryId>(i));
            statistics.at_peak_by_category[i] += ledger.at_peak_of(static_cast<CategoryId>(i));
        }
    }
    statistics.peak_allocated = peaks_.highest();
    statistics.reserved = supply_.reserved();
    statistics.peak_reserved = supply_.peak_reserved();
    statistics.driver_calls = supply_.driver_calls();
    statistics.synchronizations = synchronizations_;
    statistics.refusals = refusals_;
    statistics.retries = retries_;
    return statistics;
}

MemoryStatistics DeviceMemory::Impl::statistics() const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    return statistics_unlocked();
}

std::vector<PoolStatistics> DeviceMemory::Impl::pool_statistics() const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    std::vector<PoolStatistics> result;
    for_each_pool([&](const Pool& pool) {
        PoolStatistics statistics{.pool = pool.id, .open = pool.open, .reserved = pool.mapped()};
        pool.for_each([&](const Arena& arena) {
            arena.for_each([&](const Block& block) {
                if (block.state == BlockState::live) statistics.allocated += block.size;
            });
        });
        result.push_back(statistics);
    });
    return result;
}

std::vector<std::pair<std::string, std::size_t>> DeviceMemory::Impl::largest_paths_unlocked(std::size_t count,
                                                                                            bool at_peak) const {
    std::vector<std::pair<std::size_t, PathId>> bytes;
    for (PathId id = 0; id < paths_.size(); ++id) {
        std::size_t sum = 0;
        for (const auto& shard : shard_list_) {
            const Ledger& ledger = shard->ledger;
            if (ledger.knows(id)) sum += at_peak ? ledger.at_peak(id) : ledger.live(id);
        }
        if (sum > 0) bytes.emplace_back(sum, id);
    }
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(std::min(count, bytes.size()));
    std::partial_sort(bytes.begin(), middle, bytes.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::vector<std::pair<std::string, std::size_t>> result;
    std::for_each(bytes.begin(), middle,
                  [&](const auto& entry) { result.emplace_back(paths_.name(entry.second), entry.first); });
    return result;
}

std::vector<std::pair<std::string, std::size_t>> DeviceMemory::Impl::largest_paths(std::size_t count,
                                                                                   bool at_peak) const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    return largest_paths_unlocked(count, at_peak);
}

MemoryPeak DeviceMemory::Impl::peak(std::size_t paths) const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    const MemoryStatistics statistics = statistics_unlocked();
    const std::string op = paths_.name(peak_tag_.op);
    return {.allocated = statistics.peak_allocated,
            .reserved = statistics.peak_reserved,
            .purpose = purpose(memory::name_of(peak_tag_.category, options_.categories), paths_.name(peak_tag_.path)) +
                       (op.empty() ? "" : " (" + op + ")"),
            .by_category = statistics.at_peak_by_category,
            .largest_paths = largest_paths_unlocked(paths, true)};
}

void DeviceMemory::Impl::reset_peak() {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    peak_tag_ = {};
    peaks_.reset(live_unlocked());
    for (const auto& shard : shard_list_) shard->ledger.mark_peak();
    share_quota();
    supply_.reset_peak();
}

std::pair<std::uint32_t, std::size_t> DeviceMemory::Impl::open_mark() {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    const std::size_t live = live_unlocked();
    const std::uint32_t mark = peaks_.open(live);
    share_quota();
    return {mark, live};
}

void DeviceMemory::Impl::close_mark(std::uint32_t mark) noexcept {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    peaks_.close(mark);
    share_quota();
}

std::size_t DeviceMemory::Impl::mark(std::uint32_t mark) const {
    const SlowLock guard(lock_);
    return peaks_.highest(mark);
}

std::size_t DeviceMemory::Impl::live() const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    return live_unlocked();
}

void DeviceMemory::Impl::start_history(std::size_t events) {
    auto fresh = events > 0 ? std::make_unique<HistoryRing>(events) : nullptr;
    const SlowLock guard(lock_);
    const AllShards all(*this);
    history_.swap(fresh);
    keeps_history_.store(history_ != nullptr, std::memory_order_relaxed);
}

void DeviceMemory::Impl::describe(const Arena& arena, MemorySnapshot& snapshot) const {
    bool in_segment = false;
    arena.for_each([&](const Block& block) {
        if (block.state == BlockState::hole) {
            in_segment = false;
            return;
        }
        if (!in_segment) {
            snapshot.segments.push_back({reinterpret_cast<std::uintptr_t>(block.data), 0, arena.pool()});
        }
        in_segment = true;
        snapshot.segments.back().bytes += block.size;
        BlockInfo info{.address = reinterpret_cast<std::uintptr_t>(block.data),
                       .bytes = block.size,
                       .stream = block.stream,
                       .pool = arena.pool(),
                       .live = block.state == BlockState::live};
        if (info.live) info.requested = block.bytes;
        if (info.live) info.tag = {block.category, block.path, block.op};
        snapshot.blocks.push_back(info);
    });
}

MemorySnapshot DeviceMemory::Impl::snapshot() const {
    const SlowLock guard(lock_);
    const AllShards all(*this);
    MemorySnapshot snapshot;
    snapshot.device = properties_.name;
    snapshot.limit = supply_.budget();
    snapshot.asked_limit = limit();
    snapshot.page_bytes = supply_.granularity();
    snapshot.time = HistoryRing::now();
    snapshot.statistics = statistics_unlocked();
    snapshot.categories = options_.categories;
    for (PathId id = 0; id < paths_.size(); ++id) snapshot.paths.push_back(paths_.name(id));
    for_each_pool([&](const Pool& pool) { pool.for_each([&](const Arena& arena) { describe(arena, snapshot); }); });
    std::sort(snapshot.segments.begin(), snapshot.segments.end(),
              [](const Segment& a, const Segment& b) { return a.address < b.address; });
    std::sort(snapshot.blocks.begin(), snapshot.blocks.end(),
              [](const BlockInfo& a, const BlockInfo& b) { return a.address < b.address; });
    if (history_) {
        snapshot.events = history_->events();
        snapshot.events_dropped = history_->dropped();
    }
    return snapshot;
}

}  // namespace headroom::memory
