// The report of a request that does not fit.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <headroom/memory/allocator/impl.hpp>

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

MemoryReport DeviceMemory::Impl::report(const Request& request, Arena& arena) {
    const AllShards all(*this, shards_[request.stream].load(std::memory_order_relaxed));
    MemoryReport report;
    report.device = properties_.name;
    report.requested = request.bytes;
    report.rounded = std::max(request.size, request.bytes);  // near 2^64 the rounded size wraps
    report.tag = request.tag;
    report.path = paths_.name(request.tag.path);
    report.limit = limit_;
    report.page_bytes = supply_.granularity();
    report.device_total = properties_.total_bytes;
    report.device_free = driver_->free_bytes();
    report.statistics = statistics_unlocked();
    report.largest_paths = largest_paths_unlocked(10, false);
    report.repeated = repeated(largest_paths_unlocked(paths_.size(), false));
    count_free(request.stream, report);

    count_obtainable(arena, report);
    report.advice = advise(report);
    return report;
}

void DeviceMemory::Impl::count_obtainable(Arena& arena, MemoryReport& report) {
    const std::size_t pages = all_pages(std::min(supply_.left(), report.device_free / supply_.granularity()));
    const auto look_at = [&](Arena& range) {
        const std::size_t own = may_move(range) ? range.free_pages() : 0;
        report.largest_obtainable =
            std::max(report.largest_obtainable, range.largest_obtainable(pages - own, may_move(range)));
    };
    look_at(arena);
    if (&arena != &common_) return;
    for (const auto& range : more_) look_at(*range);
    // In a range of its own.
    const std::size_t range = properties_.address_bytes / supply_.granularity();
    report.largest_obtainable = std::max(report.largest_obtainable, std::min(pages, range) * supply_.granularity());
}

/// Splits what is reserved, but not live, by the reason why it is not to be had.
void DeviceMemory::Impl::count_free(StreamId stream, MemoryReport& report) {
    const auto look_at = [&](const Block& block) {
        if (block.state != BlockState::free) return;
        bool pending = false;
        block.pending.for_each([&](StreamId other, Ticket ticket) {
            if (other == stream) return;
            const StreamLog::Entry* entry = shards_[other].load(std::memory_order_relaxed)->log.recorded(ticket);
            pending = pending || !entry || !driver_->passed(entry->event);
        });
        if (pending) report.pending += block.size;
    };
    common_.for_each(look_at);
    for (const auto& range : more_) range->for_each(look_at);
    for (const auto& [id, pool] : pools_) {
        if (!pool.open) continue;
        pool.arena->for_each([&](const Block& block) {
            if (block.state == BlockState::free) report.held_for_graphs += block.size;
        });
    }
    report.cached = report.statistics.reserved - report.statistics.allocated - report.pending - report.held_for_graphs;
}

}  // namespace headroom::memory
