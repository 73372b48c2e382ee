#pragma once
// What an allocator should say about its live blocks, kept by the simplest means.
//
//     AllocationModel model(granule);
//     model.add({allocation, requested, tag, stream, pool});
//     model.check(memory.statistics());
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/device_memory.hpp>

namespace headroom::memory::test {

struct LiveBlock {
    Allocation allocation;
    std::size_t requested = 0;
    Tag tag{};
    StreamId stream = 0;
    PoolId pool = 0;
    unsigned char pattern = 0;
};

class AllocationModel {
  public:
    explicit AllocationModel(std::size_t granule, std::size_t paths = 1)
        : granule_(granule), by_path_(paths), by_path_at_peak_(paths) {}

    void add(const LiveBlock& live) {
        const auto [data, handle, bytes] = live.allocation;
        const auto next = by_address_.lower_bound(data);
        EXPECT_TRUE(next == by_address_.end() || data + bytes <= next->first) << "blocks overlap";
        EXPECT_TRUE(next == by_address_.begin() || std::prev(next)->first + std::prev(next)->second <= data)
            << "blocks overlap";
        by_address_.emplace_hint(next, data, bytes);
        for_each_page(live, [&](std::uintptr_t page) { ++blocks_in_[page]; });
        change(live, 1);
        ++expected_.allocations;
        if (expected_.allocated > expected_.peak_allocated) mark_peak(live.tag);
        for (auto& [scope, figures] : scopes_) figures.peak = std::max(figures.peak, expected_.allocated);
    }
    void remove(const LiveBlock& live) {
        by_address_.erase(live.allocation.data);
        for_each_page(live, [&](std::uintptr_t page) {
            const auto found = blocks_in_.find(page);
            if (--found->second == 0) blocks_in_.erase(found);
        });
        change(live, -1);
    }
    void reset_peak() { mark_peak({}); }
    void open_scope(int id) { scopes_[id] = {expected_.allocated, expected_.allocated}; }
    void close_scope(int id) { scopes_.erase(id); }

    /// Live figures and peaks; not those of pages.
    void check(const MemoryStatistics& statistics) const {
        ASSERT_EQ(statistics.allocated, expected_.allocated);
        ASSERT_EQ(statistics.requested, expected_.requested);
        ASSERT_EQ(statistics.allocations, expected_.allocations);
        ASSERT_EQ(statistics.allocated_by_category, expected_.allocated_by_category);
        ASSERT_EQ(statistics.peak_allocated, expected_.peak_allocated);
        ASSERT_EQ(statistics.at_peak_by_category, expected_.at_peak_by_category);
        ASSERT_GE(statistics.reserved, statistics.allocated);
        ASSERT_LE(statistics.reserved, statistics.peak_reserved);
    }
    void check_paths(const DeviceMemory& memory) const {
        ASSERT_EQ(memory.largest_paths(by_path_.size()), sorted(memory, by_path_));
        ASSERT_EQ(memory.peak(by_path_.size()).largest_paths, sorted(memory, by_path_at_peak_));
        ASSERT_EQ(memory.peak().purpose, memory.path(peak_path_));  // categories have no names here
    }
    std::size_t scope_peak(int id) const { return scopes_.at(id).peak - scopes_.at(id).entry; }
    std::int64_t scope_live(int id) const {
        return static_cast<std::int64_t>(expected_.allocated) - static_cast<std::int64_t>(scopes_.at(id).entry);
    }

    /// Calls visit(address) for each page with a live byte.
    template <class Visit>
    void for_each_live_page(Visit&& visit) const {
        for (const auto& [page, blocks] : blocks_in_) visit(page);
    }
    const MemoryStatistics& expected() const { return expected_; }

  private:
    struct Scope {
        std::size_t entry;
        std::size_t peak;
    };
    using Paths = std::vector<std::pair<std::string, std::size_t>>;

    template <class Visit>
    void for_each_page(const LiveBlock& live, Visit&& visit) {
        const auto begin = reinterpret_cast<std::uintptr_t>(live.allocation.data);
        for (auto page = begin / granule_ * granule_; page < begin + live.allocation.bytes; page += granule_) {
            visit(page);
        }
    }
    void change(const LiveBlock& live, int sign) {
        const std::size_t bytes = sign > 0 ? live.allocation.bytes : std::size_t{0} - live.allocation.bytes;
        expected_.allocated += bytes;
        expected_.requested += sign > 0 ? live.requested : std::size_t{0} - live.requested;
        expected_.allocated_by_category[live.tag.category] += bytes;
        by_path_[live.tag.path] += bytes;
    }
    void mark_peak(Tag tag) {
        peak_path_ = tag.path;
        expected_.peak_allocated = expected_.allocated;
        expected_.at_peak_by_category = expected_.allocated_by_category;
        by_path_at_peak_ = by_path_;
    }
    static Paths sorted(const DeviceMemory& memory, const std::vector<std::size_t>& bytes) {
        std::vector<PathId> ids;
        for (PathId id = 0; id < bytes.size(); ++id) {
            if (bytes[id] > 0) ids.push_back(id);
        }
        std::stable_sort(ids.begin(), ids.end(), [&](PathId a, PathId b) { return bytes[a] > bytes[b]; });
        Paths result;
        for (const PathId id : ids) result.emplace_back(memory.path(id), bytes[id]);
        return result;
    }

    const std::size_t granule_;
    std::map<std::byte*, std::size_t> by_address_;
    std::map<std::uintptr_t, int> blocks_in_;  ///< by page
    MemoryStatistics expected_;
    std::vector<std::size_t> by_path_;
    std::vector<std::size_t> by_path_at_peak_;
    PathId peak_path_ = 0;  ///< of the request that made the peak
    std::map<int, Scope> scopes_;
};

}  // namespace headroom::memory::test
