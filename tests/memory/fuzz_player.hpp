#pragma once
// Calls a device's memory at random and compares all that it says with a model: figures after every call, the order of
// work on streams, contents, and whether a refusal was justified.
//
//     FuzzPlayer player(make_simulated_gpu(), {.seed = 1});
//     while (player.steps() < 1000) player.step();
//     player.finish();
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/tests/memory/allocation_model.hpp>
#include <headroom/tests/memory/checked_driver.hpp>
#include <headroom/tests/memory/happens_before.hpp>

namespace headroom::memory::test {

struct FuzzOptions {
    std::uint64_t seed = 0;
    StreamId streams = 5;
    std::size_t limit = 24;  ///< granules
    bool failures = false;   ///< calls of the driver fail now and then
};

class FuzzPlayer {
  public:
    FuzzPlayer(std::unique_ptr<Driver> driver, FuzzOptions options)
        : random_(options.seed),
          failing_(options.failures),
          properties_(driver->properties()),
          granule_(properties_.granularity),
          streams_(options.streams),
          memory_(std::make_unique<OrderedDriver>(std::make_unique<CheckedDriver>(std::move(driver), log_), order_),
                  {.limit = options.limit * granule_ + granule_ / 2, .history = 1000}),
          model_(granule_, kPaths) {
        for (PathId i = 1; i < kPaths; ++i) memory_.intern("module." + std::to_string(i));
    }

    void step() {
        ++steps_;
        if (failing_) log_.fail(DriverCall::any, static_cast<std::int64_t>(below(16)));
        try {
            act(below(1000));
        } catch (const DeviceError&) {
            ASSERT_TRUE(failing_);
        }
        if (failing_ && log_.stop_failing()) ++failures_;
        check();
    }
    std::uint64_t steps() const { return steps_; }
    std::uint64_t refusals() const { return refusals_; }
    std::uint64_t failures() const { return failures_; }
    DeviceMemory& memory() { return memory_; }
    DriverLog& log() { return log_; }

    /// As many whole pages as neither live blocks nor open pools hold are to be had in one piece; what would take more,
    /// even counting parts of two pages beside it, is not.
    void expect_what_there_is_room_for() {
        const auto [movable, held] = pages();
        const std::size_t room = memory_.limit() / granule_ - movable - held;
        const StreamId stream = some_stream();
        ASSERT_THROW(memory_.allocate((room + 2) * granule_, stream, {}), OutOfMemory);
        check();
        if (room == 0) return;
        LiveBlock live;
        live.requested = room * granule_ - below(granule_);
        live.stream = stream;
        ASSERT_NO_THROW(live.allocation = memory_.allocate(live.requested, stream, {}));
        keep(live);
        check();
        give_back(blocks_.size() - 1);
    }
    /// Gives all back. Nothing must be left.
    void finish() {
        scopes_.clear();
        while (pools_.size() > 1) close_pool();
        while (!blocks_.empty()) give_back(blocks_.size() - 1);
        memory_.trim();
        check();
        EXPECT_EQ(memory_.statistics().reserved, 0u);
        EXPECT_EQ(log_.ranges.size(), 1u) << "pools were not released";
    }

  private:
    static constexpr PathId kPaths = 20;

    std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
    /// Small and large sizes alike: uniform in their logarithm.
    std::size_t random_size() {
        const std::size_t largest = below(4) == 0 ? 6 * granule_ : granule_ / 8;
        const double exponent = std::uniform_real_distribution<>(0, std::log2(static_cast<double>(largest)))(random_);
        const auto bytes = static_cast<std::size_t>(std::exp2(exponent)) - 1;
        return below(8) == 0 ? bytes / granule_ * granule_ : bytes;
    }

    void act(std::size_t dice) {
        if (dice < 520 || blocks_.empty()) {
            const PoolId pool = below(10) == 0 ? pools_[below(pools_.size())] : 0;
            allocate(random_size(), some_stream(), pool);
            return;
        }
        if (dice < 900) return give_back(below(blocks_.size()));
        if (dice < 940) return use_elsewhere();
        if (dice < 965) return use();
        if (dice < 980) return order_.join(some_stream(), some_stream());
        if (dice < 983) return open_scope();
        if (dice < 986) return close_scope();
        if (dice < 988) return memory_.begin_step();
        if (dice < 990) return open_pool();
        if (dice < 992) return close_pool();
        if (dice < 994) return reset_peak();
        if (dice < 995) return give_much_back();
        if (dice < 996) return check_snapshot();
        if (dice < 997) return trim();
        model_.check_paths(memory_);
    }
    StreamId some_stream() { return static_cast<StreamId>(below(streams_)); }
    const LiveBlock& some_block() { return blocks_[below(blocks_.size())]; }

    void allocate(std::size_t bytes, StreamId stream, PoolId pool) {
        LiveBlock live;
        live.requested = bytes;
        live.tag = {static_cast<CategoryId>(below(kCategoryCount)), static_cast<PathId>(below(kPaths))};
        live.stream = stream;
        live.pool = pool;
        live.pattern = static_cast<unsigned char>(random_());
        try {
            live.allocation = memory_.allocate(live.requested, live.stream, live.tag, live.pool);
        } catch (const OutOfMemory& error) {
            ++refusals_;
            if (!failing_) check_refusal(error.report(), live);
            if (below(8) == 0) give_much_back();
            return;
        }
        keep(live);
    }
    void keep(const LiveBlock& live) {
        model_.add(live);
        if (!properties_.synchronous) order_.hand_out(live.allocation.data, live.allocation.bytes, live.stream);
        for_each_probe(live, [&](std::byte& byte) { byte = static_cast<std::byte>(live.pattern); });
        blocks_.push_back(live);
    }
    void give_back(std::size_t index) {
        std::swap(blocks_[index], blocks_.back());
        const LiveBlock live = blocks_.back();
        blocks_.pop_back();
        for_each_probe(live, [&](std::byte& byte) { ASSERT_EQ(byte, static_cast<std::byte>(live.pattern)); });
        if (!properties_.synchronous && below(2)) order_.use(live.allocation.data, live.stream);
        model_.remove(live);
        memory_.deallocate(live.allocation.handle);
    }
    void give_much_back() {
        for (std::size_t count = blocks_.size() / 2; count > 0; --count) give_back(below(blocks_.size()));
    }
    void use() {
        const LiveBlock live = some_block();
        if (!properties_.synchronous) order_.use(live.allocation.data, live.stream);
    }
    void use_elsewhere() {
        const LiveBlock live = some_block();
        const StreamId stream = some_stream();
        if (!properties_.synchronous) {
            order_.join(stream, live.stream);
            order_.use(live.allocation.data, stream);
        }
        memory_.record_use(live.allocation.handle, stream);
    }

    void open_pool() {
        if (pools_.size() > 3) return;
        const std::size_t before = log_.ranges.size();
        pools_.push_back(memory_.open_pool());
        ASSERT_EQ(log_.ranges.size(), before + 1);
    }
    void close_pool() {
        if (pools_.size() == 1) return;
        std::swap(pools_[1 + below(pools_.size() - 1)], pools_.back());
        memory_.close_pool(pools_.back());
        pools_.pop_back();
    }
    void open_scope() {
        if (scopes_.size() > 5) return;
        scopes_.push_back({++last_scope_, std::make_unique<MemoryScope>(memory_)});
        model_.open_scope(last_scope_);
    }
    void close_scope() {
        if (scopes_.empty()) return;
        const std::size_t index = below(scopes_.size());
        model_.close_scope(scopes_[index].first);
        scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    void reset_peak() {
        memory_.reset_peak();
        model_.reset_peak();
        log_.peak_created = log_.created;
    }
    void trim() {
        const std::size_t before = log_.created;
        const std::size_t bytes = memory_.trim();
        ASSERT_EQ(before - log_.created, bytes);
        const auto [movable, held] = pages();
        ASSERT_EQ(log_.created, (movable + held) * granule_) << "pages without a live byte are left";
    }

    void check() {
        const MemoryStatistics statistics = memory_.statistics();
        model_.check(statistics);
        ASSERT_EQ(statistics.reserved, log_.created);
        ASSERT_EQ(statistics.peak_reserved, log_.peak_created);
        ASSERT_LE(statistics.reserved, memory_.limit());
        ASSERT_EQ(statistics.driver_calls, log_.page_calls);
        ASSERT_EQ(statistics.synchronizations, static_cast<std::uint64_t>(log_.synchronizes));
        for (const auto& [id, scope] : scopes_) {
            ASSERT_EQ(scope->peak(), model_.scope_peak(id));
            ASSERT_EQ(scope->live(), model_.scope_live(id));
        }
        ASSERT_EQ(order_.violations(), "");
    }
    /// Pages that have live bytes and lie outside of open pools; all pages of open pools.
    std::pair<std::size_t, std::size_t> pages() const {
        const std::vector<Segment> segments = memory_.snapshot().segments;
        const auto in_open_pool = [&](std::uintptr_t address) {
            return std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
                const bool inside = address >= segment.address && address < segment.address + segment.bytes;
                const auto open = std::find(pools_.begin() + 1, pools_.end(), segment.pool);
                return inside && open != pools_.end();
            });
        };
        std::size_t movable = 0;
        std::size_t held = 0;
        model_.for_each_live_page([&](std::uintptr_t page) { movable += in_open_pool(page) ? 0 : 1; });
        for (const auto& [address, page] : log_.mapped) {
            held += in_open_pool(reinterpret_cast<std::uintptr_t>(address)) ? 1 : 0;
        }
        return {movable, held};
    }
    void check_refusal(const MemoryReport& report, const LiveBlock& live) {
        const auto [movable, held] = pages();
        const std::size_t wanted = (report.rounded + granule_ - 1) / granule_;
        ASSERT_GT(movable + held + wanted, memory_.limit() / granule_) << "refused though there is room";
        const MemoryStatistics& statistics = report.statistics;
        ASSERT_EQ(statistics.reserved, statistics.allocated + report.cached + report.pending + report.held_for_graphs);
        ASSERT_EQ(report.device_total, report.device_free + report.others() + statistics.reserved);
        ASSERT_LT(report.largest_obtainable, report.rounded);
        if (below(4) == 0) check_obtainable(report.largest_obtainable, live);
    }
    void check_obtainable(std::size_t bytes, LiveBlock live) {
        ASSERT_THROW(memory_.allocate(bytes + 1, live.stream, live.tag, live.pool), OutOfMemory);
        if (bytes == 0) return;
        live.requested = bytes;
        ASSERT_NO_THROW(live.allocation = memory_.allocate(bytes, live.stream, live.tag, live.pool));
        keep(live);
        give_back(blocks_.size() - 1);
    }
    void check_snapshot() {
        const MemorySnapshot snapshot = memory_.snapshot();
        std::size_t live = 0;
        std::size_t requested = 0;
        std::size_t mapped = 0;
        auto block = snapshot.blocks.begin();
        for (const Segment& segment : snapshot.segments) {
            mapped += segment.bytes;
            for (std::size_t covered = 0; covered < segment.bytes; covered += (block++)->bytes) {
                ASSERT_NE(block, snapshot.blocks.end());
                ASSERT_EQ(block->address, segment.address + covered);
                ASSERT_EQ(block->pool, segment.pool);
                if (block->live) live += block->bytes;
                requested += block->requested;
            }
        }
        ASSERT_EQ(block, snapshot.blocks.end());
        ASSERT_EQ(live, snapshot.statistics.allocated);
        ASSERT_EQ(requested, snapshot.statistics.requested);
        ASSERT_EQ(mapped, log_.mapped.size() * granule_);
        ASSERT_LE(snapshot.events.size(), 1000u);
    }
    template <class Visit>
    void for_each_probe(const LiveBlock& live, Visit&& visit) {
        if (!properties_.touchable) return;
        const std::size_t bytes = live.requested;
        for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 64); ++i) visit(live.allocation.data[i]);
        for (std::size_t i = 64; i < bytes; i += 65536) visit(live.allocation.data[i]);
        for (std::size_t i = bytes - std::min<std::size_t>(bytes, 64); i < bytes; ++i) visit(live.allocation.data[i]);
    }

    std::mt19937_64 random_;
    const bool failing_;
    DriverLog log_;
    HappensBefore order_;
    const DriverProperties properties_;
    const std::size_t granule_;
    const StreamId streams_;
    DeviceMemory memory_;
    AllocationModel model_;
    std::vector<LiveBlock> blocks_;
    std::vector<PoolId> pools_{0};  ///< open ones; the first is the common one
    std::vector<std::pair<int, std::unique_ptr<MemoryScope>>> scopes_;
    int last_scope_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t refusals_ = 0;
    std::uint64_t failures_ = 0;
};

}  // namespace headroom::memory::test
