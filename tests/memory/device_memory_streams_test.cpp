// When a block may be used again, and by whom: another stream waits for an event behind the work that used it.
#include <headroom/memory/device_memory.hpp>

#include <set>

#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/memory/happens_before.hpp>

namespace headroom::memory::test {
namespace device_memory_streams_test {

constexpr Tag kTag{};
using Waits = std::vector<DriverLog::Wait>;

class StreamsTest : public DriverTest {
  protected:
    /// What work of other streams there is to wait for; nothing on a device that works while it is called.
    Waits if_asynchronous(Waits waits) const { return asynchronous() ? waits : Waits{}; }
    std::uint64_t recorded(StreamId stream) { return log().records[stream]; }
    /// From now on, blocks that are given back may be wanted by other streams.
    static void begin(DeviceMemory& memory, std::initializer_list<StreamId> streams) {
        for (const StreamId stream : streams) memory.deallocate(memory.allocate(1, stream, kTag).handle);
    }
};

TEST_P(StreamsTest, ReuseOnOneStreamNeedsNoEvent) {
    DeviceMemory memory(driver());
    for (int i = 0; i < 10; ++i) memory.deallocate(memory.allocate(granule(), 3, kTag).handle);
    EXPECT_TRUE(log().records.empty());
    EXPECT_TRUE(log().waits.empty());
    EXPECT_EQ(log().synchronizes, 0);
    EXPECT_EQ(memory.statistics().reserved, granule());
}

TEST_P(StreamsTest, ReuseOnTheOwnStreamNeedsNoWaitWhateverOthersDo) {
    DeviceMemory memory(driver(), {.limit = 2 * granule()});
    const Allocation other = memory.allocate(granule(), 1, kTag);
    const Allocation first = memory.allocate(granule(), 0, kTag);
    memory.deallocate(first.handle);
    for (int i = 0; i < 10; ++i) {
        const Allocation again = memory.allocate(granule(), 0, kTag);
        EXPECT_EQ(again.data, first.data);
        memory.deallocate(again.handle);
    }
    EXPECT_TRUE(log().waits.empty());
    memory.deallocate(other.handle);
}

TEST_P(StreamsTest, MakeAnotherStreamWaitForWhatWasQueuedBeforeItsOnlyStreamGaveTheBlockBack) {
    DeviceMemory memory(driver(), {.limit = granule()});
    const Allocation block = memory.allocate(granule(), 0, kTag);
    memory.deallocate(block.handle);
    EXPECT_EQ(memory.allocate(granule(), 1, kTag).data, block.data);
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, 1}})) << "recorded when the second stream came";
    EXPECT_EQ(log().synchronizes, 0);
}

TEST_P(StreamsTest, WaitForOneEventForAllThatWasGivenBackWhileThereWasOneStream) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    std::vector<Block*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(memory.allocate(granule() / 4, 0, kTag).handle);
    for (Block* block : blocks) memory.deallocate(block);
    for (int i = 0; i < 16; ++i) {
        memory.allocate(granule() / 4, 1, kTag);
        // Later work of stream 0 on its own memory concerns nobody.
        memory.deallocate(memory.allocate(0, 0, kTag).handle);
        if (i == 14) break;
    }
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, 1}}));
}

TEST_P(StreamsTest, RecordNothingBecauseASecondStreamComes) {
    DeviceMemory memory(driver(), {.limit = 2 * granule()});
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    const Allocation live = memory.allocate(granule(), 0, kTag);
    EXPECT_EQ(recorded(0), 0u);
    memory.record_use(live.handle, 1);
    EXPECT_EQ(recorded(0), 0u);
    EXPECT_EQ(recorded(1), 0u);
}

TEST_P(StreamsTest, AreWaitedForByTheHostAtTheEnd) {
    if (!asynchronous()) GTEST_SKIP() << "nothing is waited for";
    HappensBefore order;
    for (const StreamId streams : {1u, 3u}) {
        DeviceMemory memory(std::make_unique<OrderedDriver>(driver(), order));
        const PoolId pool = memory.open_pool();
        std::vector<Block*> blocks;
        for (StreamId stream = 0; stream < streams; ++stream) {
            for (const PoolId id : {PoolId{0}, pool}) {
                const Allocation block = memory.allocate(granule(), stream, kTag, id);
                order.hand_out(block.data, block.bytes, stream);
                blocks.push_back(block.handle);
            }
        }
        blocks.pop_back();  // one is still live
        for (Block* block : blocks) memory.deallocate(block);
    }
    EXPECT_EQ(order.violations(), "");
}

TEST_P(StreamsTest, RecordAnEventOnlyWhenAnotherStreamTakesTheBlock) {
    DeviceMemory memory(driver(), {.limit = 2 * granule()});
    begin(memory, {0, 1});
    const std::uint64_t before = recorded(0);
    const Allocation first = memory.allocate(granule(), 0, kTag);
    const Allocation second = memory.allocate(granule(), 0, kTag);
    memory.deallocate(first.handle);
    for (int i = 0; i < 5; ++i) memory.deallocate(memory.allocate(unit(), 0, kTag).handle);
    EXPECT_EQ(recorded(0), before) << "the own stream needs none";
    log().waits.clear();
    memory.allocate(granule(), 1, kTag);
    EXPECT_EQ(recorded(0), asynchronous() ? before + 1 : 0);
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, before + 1}}));
    memory.deallocate(second.handle);
}

TEST_P(StreamsTest, WaitAgainForABlockThatWasGivenBackSinceTheLastWait) {
    DeviceMemory memory(driver(), {.limit = 3 * granule()});
    begin(memory, {0, 1});
    std::vector<Block*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(memory.allocate(granule(), 0, kTag).handle);
    const std::uint64_t before = recorded(0);
    memory.deallocate(blocks[1]);
    memory.deallocate(memory.allocate(granule() / 2, 0, kTag).handle);
    log().waits.clear();
    const Allocation taken = memory.allocate(granule(), 1, kTag);
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, before + 1}}));
    memory.deallocate(blocks[0]);
    memory.deallocate(blocks[2]);
    memory.allocate(granule(), 1, kTag);
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, before + 1}, {1, 0, before + 2}}));
    EXPECT_EQ(recorded(0), asynchronous() ? before + 2 : 0);
    memory.deallocate(taken.handle);
}

TEST_P(StreamsTest, WaitOnceForManyBlocks) {
    DeviceMemory memory(driver(), {.limit = 5 * granule()});
    begin(memory, {0, 1});
    std::vector<Block*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(memory.allocate(granule() / 4, 0, kTag).handle);
    for (Block* block : blocks) memory.deallocate(block);
    log().waits.clear();
    for (int i = 0; i < 16; ++i) memory.allocate(granule() / 4, 1, kTag);
    EXPECT_LE(log().waits.size(), 1u) << "the first wait covers what was given back before";
}

TEST_P(StreamsTest, DoNotWaitAgainOnceHandedOver) {
    DeviceMemory memory(driver(), {.limit = granule()});
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    for (int i = 0; i < 3; ++i) memory.deallocate(memory.allocate(granule(), 1, kTag).handle);
    EXPECT_EQ(log().waits, if_asynchronous({{1, 0, 1}}));
}

TEST_P(StreamsTest, PreferBlocksOfTheOwnStream) {
    DeviceMemory memory(driver());
    const Allocation zero = memory.allocate(unit(), 0, kTag);
    memory.allocate(unit(), 0, kTag);  // stays, so that the two don't merge
    const Allocation one = memory.allocate(unit(), 1, kTag);
    memory.allocate(unit(), 1, kTag);
    memory.deallocate(one.handle);
    memory.deallocate(zero.handle);
    const std::size_t waits = log().waits.size();
    EXPECT_EQ(memory.allocate(unit(), 1, kTag).data, one.data);
    EXPECT_EQ(memory.allocate(unit(), 0, kTag).data, zero.data);
    EXPECT_EQ(log().waits.size(), waits);
}

TEST_P(StreamsTest, WaitForEveryStreamThatUsedPartOfAMergedBlock) {
    for (const StreamId count : {3u, 5u, 64u}) {
        DeviceMemory memory(driver(), {.limit = count * granule()});
        std::vector<Block*> blocks;
        for (StreamId stream = 0; stream < count; ++stream) {
            blocks.push_back(memory.allocate(granule(), stream, kTag).handle);
        }
        log().waits.clear();
        for (Block* block : blocks) memory.deallocate(block);
        memory.allocate(count * granule(), 1, kTag);
        std::set<StreamId> waited_for;
        for (const DriverLog::Wait& wait : log().waits) {
            EXPECT_EQ(wait.stream, 1u);
            EXPECT_EQ(wait.event, recorded(wait.other)) << "the event of the free is the newest one";
            EXPECT_TRUE(waited_for.insert(wait.other).second) << "waited twice for " << wait.other;
        }
        EXPECT_EQ(waited_for.size(), asynchronous() ? count - 1 : 0);
        EXPECT_EQ(waited_for.count(1), 0u);
        log().records.clear();
        log().waits.clear();
    }
}

TEST_P(StreamsTest, WaitOnceForEachOfManyStreams) {
    constexpr StreamId kStreams = 64;
    DeviceMemory memory(driver(), {.limit = kStreams * granule()});
    std::vector<Block*> blocks;
    for (StreamId stream = 0; stream < kStreams; ++stream) {
        blocks.push_back(memory.allocate(granule(), stream, kTag).handle);
    }
    for (Block* block : blocks) memory.deallocate(block);
    log().waits.clear();
    for (int i = 0; i < 4; ++i) memory.allocate(kStreams / 4 * granule(), 1, kTag);
    EXPECT_EQ(log().waits.size(), asynchronous() ? kStreams - 1 : 0);
}

TEST_P(StreamsTest, WaitForStreamsThatUsedABlockOfAnother) {
    DeviceMemory memory(driver(), {.limit = granule()});
    const Allocation block = memory.allocate(granule(), 0, kTag);
    memory.record_use(block.handle, 7);
    memory.record_use(block.handle, 7);
    memory.record_use(block.handle, 9);
    memory.record_use(block.handle, 0);  // its own
    EXPECT_EQ(recorded(7) + recorded(9), 0u) << "the events are recorded when the block is given back";
    memory.deallocate(block.handle);
    EXPECT_EQ(memory.allocate(granule(), 0, kTag).data, block.data);
    EXPECT_EQ(log().waits, if_asynchronous({{0, 7, 1}, {0, 9, 1}}));
    EXPECT_EQ(log().synchronizes, 0);
}

TEST_P(StreamsTest, ForgetAUseWithTheBlockThatHadIt) {
    DeviceMemory memory(driver(), {.limit = granule()});
    const Allocation block = memory.allocate(granule(), 0, kTag);
    memory.record_use(block.handle, 7);
    memory.deallocate(block.handle);
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    log().waits.clear();
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    EXPECT_TRUE(log().waits.empty());
}

TEST_P(StreamsTest, WaitForAnEventRecordedLaterWhereTheOneOfTheFreeFailed) {
    if (!asynchronous()) GTEST_SKIP() << "no events are recorded";
    // Blocks that five streams used merge: more than a block keeps exactly.
    DeviceMemory memory(driver(), {.limit = 5 * granule()});
    begin(memory, {0, 1, 2, 3, 4, 5});
    std::vector<Block*> blocks;
    for (StreamId stream = 0; stream < 5; ++stream) {
        blocks.push_back(memory.allocate(granule(), 5, kTag).handle);
        memory.record_use(blocks.back(), stream);
    }
    for (StreamId stream = 0; stream < 5; ++stream) {
        const std::uint64_t before = recorded(stream);
        log().fail(DriverCall::record, 0);
        EXPECT_NO_THROW(memory.deallocate(blocks[stream]));
        EXPECT_TRUE(log().stop_failing());
        EXPECT_EQ(recorded(stream), before);
    }
    auto last = log().records;
    log().waits.clear();
    memory.allocate(5 * granule(), 5, kTag);
    ASSERT_EQ(log().waits.size(), 5u);
    for (const DriverLog::Wait& wait : log().waits) EXPECT_EQ(wait.event, last[wait.other] + 1);
}

TEST_P(StreamsTest, LeaveLiveFiguresAsTheyWereWhenTheWaitFails) {
    if (!asynchronous()) GTEST_SKIP() << "nothing is waited for";
    for (const DriverCall call : {DriverCall::record, DriverCall::wait}) {
        DeviceMemory memory(driver(), {.limit = granule()});
        memory.deallocate(memory.allocate(granule() / 2, 0, kTag).handle);
        const MemoryStatistics before = memory.statistics();
        log().fail(call, 0, true);
        EXPECT_THROW(memory.allocate(granule(), 1, kTag), DeviceError);
        EXPECT_EQ(memory.statistics(), before);
        log().stop_failing();
        memory.deallocate(memory.allocate(granule(), 1, kTag).handle);
        memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    }
}

TEST_P(StreamsTest, KeepFewEventsHoweverManyBlocksAreGivenBack) {
    DeviceMemory memory(driver());
    begin(memory, {0, 1});
    log().waits.clear();
    for (int i = 0; i < 10'000; ++i) memory.deallocate(memory.allocate(unit(), i % 2, kTag).handle);
    EXPECT_LE(log().events.size(), 2 * 64u);
    const Allocation block = memory.allocate(unit(), 0, kTag);
    memory.deallocate(block.handle);
    EXPECT_TRUE(log().waits.empty()) << "each stream had its own block";
}

INSTANTIATE_TEST_SUITE_P(Drivers, StreamsTest, all_drivers(), driver_name);

}  // namespace device_memory_streams_test
}  // namespace headroom::memory::test
