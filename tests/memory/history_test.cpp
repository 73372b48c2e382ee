// What a memory tells about itself: how it lies, and how it came to that.
#include <headroom/memory/history.hpp>

#include <numeric>
#include <optional>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace history_test {

using Kind = MemoryEvent::Kind;

enum : CategoryId { kParameters, kGradients, kWorkspace, kInputs };

class HistoryTest : public DriverTest {
  protected:
    static std::vector<MemoryEvent> of(Kind kind, const std::vector<MemoryEvent>& events) {
        std::vector<MemoryEvent> result;
        for (const MemoryEvent& event : events) {
            if (event.kind == kind) result.push_back(event);
        }
        return result;
    }
    static std::uintptr_t address(const Allocation& block) { return reinterpret_cast<std::uintptr_t>(block.data); }
};

TEST_P(HistoryTest, IsEmptyUnlessItIsAskedFor) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(1, 0, {}).handle);
    EXPECT_TRUE(memory.snapshot().events.empty());
    memory.start_history(10);
    memory.deallocate(memory.allocate(1, 0, {}).handle);
    EXPECT_EQ(memory.snapshot().events.size(), 2u) << "from now on";
    memory.start_history(0);
    memory.deallocate(memory.allocate(1, 0, {}).handle);
    EXPECT_TRUE(memory.snapshot().events.empty());
    EXPECT_EQ(memory.snapshot().events_dropped, 0u);
}

TEST_P(HistoryTest, TellsBlocksWithPathsStepsStreamsAndPools) {
    DeviceMemory memory(driver(), {.history = 100, .categories = {{"parameters"}, {"gradients", 1}}});
    const PathId path = memory.intern("blocks.3.mlp");
    const PoolId pool = memory.open_pool();
    const Allocation first = memory.allocate(100, 3, {kGradients, path});
    memory.begin_step();
    const Allocation second = memory.allocate(5, 0, {kInputs, 0}, pool);
    memory.begin_step();
    memory.deallocate(first.handle);
    memory.deallocate(second.handle);
    const MemorySnapshot snapshot = memory.snapshot();
    EXPECT_EQ(snapshot.paths.at(path), "blocks.3.mlp");
    ASSERT_EQ(snapshot.categories.size(), 2u);
    EXPECT_EQ(name_of(kGradients, snapshot.categories), "gradients");
    EXPECT_EQ(snapshot.categories[1].layer, 1);
    EXPECT_EQ(name_of(kInputs, snapshot.categories), "");
    const auto allocated = of(Kind::allocate, snapshot.events);
    const auto freed = of(Kind::free, snapshot.events);
    ASSERT_EQ(allocated.size(), 2u);
    ASSERT_EQ(freed.size(), 2u);
    EXPECT_EQ(allocated[0].address, address(first));
    EXPECT_EQ(allocated[0].bytes, first.bytes);
    EXPECT_EQ(allocated[0].requested, 100u);
    EXPECT_EQ(allocated[0].path, path);
    EXPECT_EQ(allocated[0].category, kGradients);
    EXPECT_EQ(allocated[0].stream, 3u);
    EXPECT_EQ(allocated[0].pool, 0u);
    EXPECT_EQ(allocated[0].step, 0u);
    EXPECT_EQ(allocated[1].address, address(second));
    EXPECT_EQ(allocated[1].pool, pool);
    EXPECT_EQ(allocated[1].step, 1u);
    EXPECT_EQ(freed[0].address, address(first));
    EXPECT_EQ(freed[0].bytes, first.bytes);
    EXPECT_EQ(freed[0].requested, 100u);
    EXPECT_EQ(freed[0].path, path);
    EXPECT_EQ(freed[0].step, 2u);
    EXPECT_EQ(freed[1].pool, pool);
    std::uint64_t last = 0;
    for (const MemoryEvent& event : snapshot.events) {
        EXPECT_GE(event.time, last);
        last = event.time;
    }
    EXPECT_GE(snapshot.time, last);
}

TEST_P(HistoryTest, TellsPages) {
    DeviceMemory memory(driver(), {.history = 100});
    const Allocation block = memory.allocate(3 * granule(), 0, {});
    memory.deallocate(block.handle);
    memory.trim();
    const MemorySnapshot snapshot = memory.snapshot();
    const auto mapped = of(Kind::map, snapshot.events);
    const auto unmapped = of(Kind::unmap, snapshot.events);
    ASSERT_EQ(mapped.size(), 1u);
    ASSERT_EQ(unmapped.size(), 1u);
    EXPECT_EQ(mapped[0].address, address(block));
    EXPECT_EQ(mapped[0].bytes, 3 * granule());
    EXPECT_EQ(unmapped[0].address, address(block));
    EXPECT_EQ(unmapped[0].bytes, 3 * granule());
    EXPECT_TRUE(snapshot.segments.empty());
}

TEST_P(HistoryTest, TellsWhichPoolPagesBelongTo) {
    DeviceMemory memory(driver(), {.history = 100});
    const PoolId pool = memory.open_pool();
    memory.deallocate(memory.allocate(3 * granule(), 0, {}, pool).handle);
    memory.close_pool(pool);
    const MemorySnapshot snapshot = memory.snapshot();
    for (const Kind kind : {Kind::map, Kind::unmap}) {
        const auto events = of(kind, snapshot.events);
        ASSERT_EQ(events.size(), 1u);
        EXPECT_EQ(events[0].pool, pool);
    }
}

TEST_P(HistoryTest, TellsRequestsThatFailed) {
    DeviceMemory memory(driver(), {.limit = 2 * granule(), .history = 100});
    const PathId path = memory.intern("head");
    for (const std::size_t bytes : {3 * granule(), properties().address_bytes + granule()}) {
        EXPECT_THROW(memory.allocate(bytes, 1, {kWorkspace, path}), OutOfMemory);
        const MemoryEvent event = memory.snapshot().events.back();
        EXPECT_EQ(event.kind, Kind::out_of_memory);
        EXPECT_EQ(event.address, 0u);
        EXPECT_EQ(event.requested, bytes);
        EXPECT_EQ(event.stream, 1u);
        EXPECT_EQ(event.path, path);
        EXPECT_EQ(event.category, kWorkspace);
    }
}

TEST_P(HistoryTest, KeepsTheLastEventsAndCountsTheOthers) {
    DeviceMemory memory(driver(), {.history = 7});
    std::vector<Allocation> blocks;
    for (std::size_t i = 0; i < 20; ++i) blocks.push_back(memory.allocate((i + 1) * unit(), 0, {}));
    const std::uint64_t maps = log().page_calls;  // of which some are events
    const MemorySnapshot snapshot = memory.snapshot();
    ASSERT_EQ(snapshot.events.size(), 7u);
    EXPECT_GE(snapshot.events_dropped, 13u);
    EXPECT_LE(snapshot.events_dropped, 13u + maps);
    EXPECT_EQ(snapshot.events.back().address, address(blocks.back()));
    EXPECT_EQ(snapshot.events.back().bytes, 20 * unit());
}

TEST_P(HistoryTest, ReplaysToWhatIsLive) {
    DeviceMemory memory(driver(), {.history = 100'000});
    std::vector<Block*> blocks;
    for (std::size_t i = 0; i < 3000; ++i) {
        blocks.push_back(memory.allocate(i * 7919 % (granule() / 4), i % 3, {}).handle);
        if (i % 3 == 0) continue;
        std::swap(blocks[i * 31 % blocks.size()], blocks.back());
        memory.deallocate(blocks.back());
        blocks.pop_back();
    }
    const MemorySnapshot snapshot = memory.snapshot();
    ASSERT_EQ(snapshot.events_dropped, 0u);
    std::map<std::uintptr_t, std::size_t> live;
    std::int64_t mapped = 0;
    std::size_t now = 0;
    std::size_t peak = 0;
    for (const MemoryEvent& event : snapshot.events) {
        if (event.kind == Kind::map) mapped += static_cast<std::int64_t>(event.bytes);
        if (event.kind == Kind::unmap) mapped -= static_cast<std::int64_t>(event.bytes);
        if (event.kind == Kind::allocate) {
            EXPECT_TRUE(live.emplace(event.address, event.bytes).second);
            now += event.bytes;
        }
        if (event.kind == Kind::free) {
            EXPECT_EQ(live.at(event.address), event.bytes);
            live.erase(event.address);
            now -= event.bytes;
        }
        peak = std::max(peak, now);
    }
    EXPECT_EQ(now, snapshot.statistics.allocated);
    EXPECT_EQ(peak, snapshot.statistics.peak_allocated);
    EXPECT_EQ(static_cast<std::size_t>(mapped), snapshot.statistics.reserved);
    for (const BlockInfo& block : snapshot.blocks) {
        EXPECT_EQ(live.count(block.address), block.live ? 1u : 0u);
        if (block.live) {
            EXPECT_EQ(live.at(block.address), block.bytes);
        }
    }
}

TEST_P(HistoryTest, SnapshotHasBlocksThatTileTheSegments) {
    DeviceMemory memory(driver(), {.limit = 100 * granule()});
    const PoolId pool = memory.open_pool();
    const PathId path = memory.intern("mlp");
    const Allocation small = memory.allocate(unit() + 1, 2, {kParameters, path});
    const Allocation middle = memory.allocate(5 * granule(), 0, {});
    const Allocation large = memory.allocate(2 * granule(), 0, {});
    const Allocation own = memory.allocate(granule() / 2, 1, {}, pool);
    memory.deallocate(middle.handle);
    memory.trim();  // leaves a hole
    const MemorySnapshot snapshot = memory.snapshot();
    EXPECT_EQ(snapshot.device, properties().name);
    EXPECT_EQ(snapshot.limit, 100 * granule());
    EXPECT_EQ(snapshot.statistics, memory.statistics());
    ASSERT_EQ(snapshot.segments.size(), 3u);
    std::size_t bytes = 0;
    auto block = snapshot.blocks.begin();
    for (const Segment& segment : snapshot.segments) {
        bytes += segment.bytes;
        std::size_t covered = 0;
        while (covered < segment.bytes) {
            ASSERT_NE(block, snapshot.blocks.end());
            EXPECT_EQ(block->address, segment.address + covered);
            EXPECT_EQ(block->pool, segment.pool);
            covered += (block++)->bytes;
        }
        EXPECT_EQ(covered, segment.bytes);
    }
    EXPECT_EQ(block, snapshot.blocks.end());
    EXPECT_EQ(bytes, snapshot.statistics.reserved);
    const auto find = [&](const Allocation& wanted) -> std::optional<BlockInfo> {
        for (const BlockInfo& info : snapshot.blocks) {
            if (info.live && info.address == address(wanted)) return info;
        }
        return std::nullopt;
    };
    ASSERT_TRUE(find(small) && find(large) && find(own));
    EXPECT_FALSE(find(middle));
    EXPECT_EQ(find(small)->requested, unit() + 1);
    EXPECT_EQ(find(small)->bytes, 2 * unit());
    EXPECT_EQ(find(small)->stream, 2u);
    EXPECT_EQ(find(small)->tag.category, kParameters);
    EXPECT_EQ(find(small)->tag.path, path);
    EXPECT_EQ(find(own)->pool, pool);
}

INSTANTIATE_TEST_SUITE_P(Drivers, HistoryTest, all_drivers(), driver_name);

}  // namespace history_test
}  // namespace headroom::memory::test
