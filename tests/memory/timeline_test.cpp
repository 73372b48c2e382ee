#include <headroom/memory/history/internal/timeline.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/timeline_peak.hpp>
#include <headroom/tests/support/training_history.hpp>

namespace headroom::memory {
namespace timeline_test {

using Kind = MemoryEvent::Kind;

MemoryLevel last_level(const MemorySnapshot& snapshot, const Timeline& timeline) {
    MemoryLevel level = timeline.start;
    for (const MemoryEvent& event : snapshot.events) level.apply(event);
    return level;
}

void expect_ends_at_present(const MemorySnapshot& snapshot) {
    const Timeline timeline = make_timeline(snapshot);
    const MemoryLevel last = last_level(snapshot, timeline);
    EXPECT_EQ(last.allocated(), snapshot.statistics.allocated);
    EXPECT_EQ(last.live, snapshot.statistics.allocated_by_category);
    EXPECT_EQ(last.reserved, snapshot.statistics.reserved);
}

/// Live bytes after `events` events, added up from the blocks.
MemoryLevel level_of_blocks(const MemorySnapshot& snapshot, const Timeline& timeline, std::size_t events) {
    const std::vector<bool> live = test::live_after(snapshot, timeline, events);
    MemoryLevel level;
    for (std::size_t i = 0; i < live.size(); ++i) {
        const BlockLife& block = timeline.blocks[i];
        if (live[i]) level.live[block.tag.category] += block.bytes;
    }
    return level;
}

void expect_the_allocators_peak(const MemorySnapshot& snapshot, const Timeline& timeline) {
    const MemoryLevel peak = test::peak_of(snapshot, timeline).level;
    EXPECT_EQ(peak.allocated(), snapshot.statistics.peak_allocated);
    EXPECT_EQ(peak.live, snapshot.statistics.at_peak_by_category);
}

TEST(Timeline, OfWholeHistoryBeginsWithNothingAndHasTheAllocatorsPeak) {
    const MemorySnapshot snapshot = headroom::test::training_history();
    const Timeline timeline = make_timeline(snapshot);
    EXPECT_EQ(timeline.start, MemoryLevel{});
    expect_the_allocators_peak(snapshot, timeline);
    EXPECT_EQ(timeline.older_blocks, 0u);
    expect_ends_at_present(snapshot);
}

TEST(Timeline, OfTheLastEventsIsTheEndOfTheWholeOne) {
    const MemorySnapshot whole = headroom::test::training_history();
    const Timeline all = make_timeline(whole);
    const std::size_t count = whole.events.size();
    for (const std::size_t kept : {count - 1, count / 2, std::size_t{333}, std::size_t{1}, std::size_t{0}}) {
        SCOPED_TRACE(kept);
        const MemorySnapshot snapshot = headroom::test::training_history({.kept = kept});
        ASSERT_EQ(snapshot.events.size(), kept);
        ASSERT_EQ(snapshot.events_dropped, count - kept);
        const Timeline timeline = make_timeline(snapshot);
        MemoryLevel level = all.start;
        for (std::size_t i = 0; i < count - kept; ++i) level.apply(whole.events[i]);
        EXPECT_EQ(timeline.start, level);
        expect_ends_at_present(snapshot);
    }
}

TEST(Timeline, BlocksAddUpToTheLevelAtEveryMoment) {
    for (const std::size_t kept : {std::size_t{1} << 30, std::size_t{500}, std::size_t{0}}) {
        SCOPED_TRACE(kept);
        const MemorySnapshot snapshot = headroom::test::training_history({.layers = 2, .steps = 3, .kept = kept});
        const Timeline timeline = make_timeline(snapshot);
        MemoryLevel level = timeline.start;
        for (std::size_t i = 0; i <= snapshot.events.size(); ++i) {
            ASSERT_EQ(level_of_blocks(snapshot, timeline, i).live, level.live) << i;
            if (i < snapshot.events.size()) level.apply(snapshot.events[i]);
        }
    }
}

TEST(Timeline, EventsKnowTheirBlocks) {
    const MemorySnapshot snapshot = headroom::test::training_history({.steps = 2, .kept = 700});
    const Timeline timeline = make_timeline(snapshot);
    ASSERT_EQ(timeline.block_of.size(), snapshot.events.size());
    EXPECT_GT(timeline.older_blocks, 0u);
    EXPECT_TRUE(std::is_sorted(timeline.blocks.begin(), timeline.blocks.begin() + timeline.older_blocks,
                               [](const auto& a, const auto& b) { return a.address < b.address; }));
    std::size_t begun = timeline.older_blocks;
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
        const MemoryEvent& event = snapshot.events[i];
        if (event.kind != Kind::allocate && event.kind != Kind::free) {
            EXPECT_EQ(timeline.block_of[i], Timeline::kNoBlock);
            continue;
        }
        const BlockLife& block = timeline.blocks.at(timeline.block_of[i]);
        EXPECT_EQ(block.address, event.address);
        EXPECT_EQ(block.bytes, event.bytes);
        EXPECT_EQ(block.requested, event.requested);
        EXPECT_EQ(block.tag.category, event.category);
        EXPECT_EQ(block.tag.path, event.path);
        if (event.kind == Kind::allocate) {
            EXPECT_EQ(timeline.block_of[i], begun++);
        }
    }
}

TEST(Timeline, ABlockThatIsOlderThanTheEventsIsKnownFromItsFree) {
    MemorySnapshot snapshot;
    snapshot.events = {{.address = 4096, .bytes = 256, .requested = 200, .path = 3, .kind = Kind::free},
                       {.address = 4096, .bytes = 128, .kind = Kind::allocate, .category = 5}};
    snapshot.statistics.allocated = 128;
    snapshot.statistics.allocated_by_category[5] = 128;
    snapshot.blocks = {{.address = 4096, .bytes = 128, .live = true, .tag = {5}}};
    const Timeline timeline = make_timeline(snapshot);
    ASSERT_EQ(timeline.blocks.size(), 2u);
    EXPECT_EQ(timeline.older_blocks, 1u);
    EXPECT_EQ(timeline.blocks[0].tag.path, 3u);
    EXPECT_EQ(timeline.block_of, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(timeline.start.allocated(), 256u);
}

TEST(Timeline, ContradictoryFiguresAreCutOffAtZero) {
    MemorySnapshot snapshot;
    snapshot.events = {{.bytes = 100, .kind = Kind::allocate},
                       {.bytes = 300, .kind = Kind::unmap},
                       {.bytes = 500, .kind = Kind::map},
                       {.bytes = 1, .kind = Kind::out_of_memory}};
    const Timeline timeline = make_timeline(snapshot);
    EXPECT_EQ(timeline.start.allocated(), 0u);
    EXPECT_EQ(timeline.start.reserved, 0u);
    EXPECT_EQ(last_level(snapshot, timeline).reserved, 500u);
}

TEST(Timeline, OfARealMemoryEndsAtItsFigures) {
    for (const std::size_t kept : {std::size_t{100'000}, std::size_t{700}, std::size_t{50}}) {
        SCOPED_TRACE(kept);
        DeviceMemory memory(make_simulated_host_driver(), {.limit = 300'000'000, .history = kept});
        const PathId path = memory.intern("blocks.0.mlp");
        std::vector<Block*> held;
        for (int i = 0; i < 1200; ++i) {
            if (i % 300 == 0) memory.begin_step();
            const auto category = static_cast<CategoryId>(i % kCategoryCount);
            held.push_back(memory.allocate(1000 + 7919 * (i % 131), 0, {category, path}).handle);
            if (i % 5 == 4) {
                memory.deallocate(held[i * 7 % held.size()]);
                held.erase(held.begin() + i * 7 % held.size());
            }
            if (held.size() > 400) {
                for (Block* block : held) memory.deallocate(block);
                held.clear();
                memory.trim();
            }
        }
        const MemorySnapshot snapshot = memory.snapshot();
        const Timeline timeline = make_timeline(snapshot);
        expect_ends_at_present(snapshot);
        if (snapshot.events_dropped == 0) {
            EXPECT_EQ(timeline.start, MemoryLevel{});
            expect_the_allocators_peak(snapshot, timeline);
        }
        EXPECT_EQ(level_of_blocks(snapshot, timeline, snapshot.events.size()).live,
                  snapshot.statistics.allocated_by_category);
        EXPECT_EQ(level_of_blocks(snapshot, timeline, 0).live, timeline.start.live);
        for (Block* block : held) memory.deallocate(block);
    }
}

TEST(PathOf, IsEmptyForANumberWithoutAPath) {
    MemorySnapshot snapshot;
    snapshot.paths = {"", "a.b"};
    EXPECT_EQ(path_of(snapshot, 1), "a.b");
    EXPECT_EQ(path_of(snapshot, 2), "");
}

}  // namespace timeline_test
}  // namespace headroom::memory
