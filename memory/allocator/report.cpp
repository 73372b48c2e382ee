// The report of a request that does not fit.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <headroom/memory/allocator/internal/impl.hpp>

namespace headroom::memory {

namespace {

/// "blocks.3.mlp" is "blocks.*" with the number "3"; without a number, both are empty.
std::pair<std::string, std::string> pattern_of(const std::string& path) {
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('.', begin), path.size());
        const std::string segment = path.substr(begin, end - begin);
        const bool number = !segment.empty() && std::all_of(segment.begin(), segment.end(),
                                                            [](unsigned char c) { return std::isdigit(c) != 0; });
        if (number) return {path.substr(0, begin) + "*", segment};
        begin = end + 1;
    }
    return {};
}

std::vector<RepeatedModules> repeated(const std::vector<std::pair<std::string, std::size_t>>& paths) {
    struct Group {
        std::set<std::string> numbers;
        std::size_t bytes = 0;
    };
    std::map<std::string, Group> groups;
    for (const auto& [path, bytes] : paths) {
        const auto [pattern, number] = pattern_of(path);
        if (pattern.empty()) continue;
        groups[pattern].numbers.insert(number);
        groups[pattern].bytes += bytes;
    }
    std::vector<RepeatedModules> result;
    for (const auto& [pattern, group] : groups) result.push_back({pattern, group.numbers.size(), group.bytes});
    std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return result;
}

}  // namespace

MemoryReport DeviceMemory::Impl::report(const Request& request, const Pool& pool) {
    MemoryReport report;
    report.device = properties_.name;
    report.rehearsal = properties_.simulated;
    report.requested = request.bytes;
    report.rounded = std::max(request.size, request.bytes);  // near 2^64 the rounded size wraps
    report.tag = request.tag;
    report.categories = options_.categories;
    report.path = paths_.name(request.tag.path);
    report.limit = limit();
    report.reserve = options_.reserve;
    report.page_bytes = supply_.granularity();
    report.device_total = properties_.total_bytes;
    report.device_free = driver_->free_bytes();
    {
        const AllShards all(*this);
        report.statistics = statistics_unlocked();
        report.largest_paths = largest_paths_unlocked(10, false);
        for (const auto& shard : shard_list_) {
            for (std::size_t i = 0; i < kCategoryCount; ++i) {
                report.outside_modules[i] += shard->ledger.outside_modules(static_cast<CategoryId>(i));
            }
        }
        report.repeated = repeated(largest_paths_unlocked(paths_.size(), false));
    }
    count_free(request.stream, report);
    count_obtainable(request, pool, report);
    if (options_.advise) report.advice = options_.advise(report);
    return report;
}

void DeviceMemory::Impl::count_obtainable(const Request& request, const Pool& pool, MemoryReport& report) {
    const std::size_t pages = all_pages(std::min(supply_.left(), report.device_free / supply_.granularity()));
    pool.for_each([&](const Arena& range) {
        report.largest_obtainable =
            std::max(report.largest_obtainable, range.largest_obtainable({0, request.stream, pages, may_move(range)}));
    });
    if (pool.id != 0) return;
    // In a range of its own.
    report.largest_obtainable =
        std::max(report.largest_obtainable, std::min(pages * supply_.granularity(), range_bytes_));
}

/// Splits what is reserved, but not live, by the reason why it is not to be had.
void DeviceMemory::Impl::count_free(StreamId stream, MemoryReport& report) {
    const std::size_t page = supply_.granularity();
    const auto pending = [&](const Block& block) {
        bool found = false;
        block.pending.for_each([&](StreamId other, Ticket ticket) {
            if (other == stream) return;
            found = found || !shards_[other].load(std::memory_order_relaxed)->log.passed(ticket);
        });
        return found;
    };
    const auto look_at = [&](const Arena& arena) {
        std::uintptr_t behind = 0;  // the last page that was counted
        arena.for_each([&](const Block& block) {
            if (block.state == BlockState::hole) return;
            const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
            const std::uintptr_t end = begin + block.size;
            if (block.state != BlockState::free) {
                const std::uintptr_t first = std::max(begin / page * page, behind);
                behind = (end + page - 1) / page * page;
                report.live_pages += (behind - first) / page;
            } else if (pending(block)) {
                report.pending += block.size;
            } else {
                const std::uintptr_t whole = (begin + page - 1) / page * page;
                report.beside_live += block.size - (end > whole ? (end - whole) / page * page : 0);
            }
        });
    };
    for_each_pool([&](const Pool& pool) {
        pool.for_each([&](const Arena& arena) {
            if (!pool.open) return look_at(arena);
            arena.for_each([&](const Block& block) {
                if (block.state == BlockState::free) report.held_for_graphs += block.size;
            });
        });
    });
    report.cached = report.statistics.reserved - report.statistics.allocated - report.pending - report.held_for_graphs;
}

}  // namespace headroom::memory
