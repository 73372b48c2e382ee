// Private pools, for recorded graphs: their pages stay where they are and serve nobody else until they are closed.
#include <cstring>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace pools_test {

constexpr Tag kTag{};

class PoolsTest : public DriverTest {};

TEST_P(PoolsTest, KeepPoolsApart) {
    DeviceMemory memory(driver());
    const PoolId pool = memory.open_pool();
    EXPECT_NE(pool, 0u);
    EXPECT_NE(memory.open_pool(), pool);
    memory.allocate(granule() / 2, 0, kTag);  // stays, so that its page can't move into the pool
    const Allocation common = memory.allocate(unit(), 0, kTag);
    memory.deallocate(common.handle);
    const Allocation own = memory.allocate(unit(), 0, kTag, pool);
    EXPECT_NE(own.data, common.data);
    EXPECT_EQ(memory.statistics().reserved, 2 * granule());
    memory.deallocate(own.handle);
    EXPECT_EQ(memory.allocate(unit(), 0, kTag, pool).data, own.data);
    EXPECT_EQ(memory.allocate(unit(), 0, kTag, 0).data, common.data);
}

TEST_P(PoolsTest, KeepTheirPagesWhileTheyAreOpen) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const PoolId pool = memory.open_pool();
    const Allocation block = memory.allocate(3 * granule(), 0, kTag, pool);
    memory.deallocate(block.handle);
    EXPECT_EQ(memory.trim(), 0u);
    EXPECT_THROW(memory.allocate(2 * granule(), 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.allocate(granule(), 0, kTag));
    EXPECT_EQ(memory.allocate(3 * granule(), 0, kTag, pool).data, block.data) << "a graph finds its addresses again";
}

TEST_P(PoolsTest, GiveTheirPagesToOthersOnceClosed) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const PoolId pool = memory.open_pool();
    memory.deallocate(memory.allocate(3 * granule(), 0, kTag, pool).handle);
    memory.close_pool(pool);
    EXPECT_NO_THROW(memory.allocate(4 * granule(), 0, kTag));
    EXPECT_EQ(log().peak_created, 4 * granule());
}

TEST_P(PoolsTest, LetFreePagesGoThoughOthersAreLiveOnceClosed) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const PoolId pool = memory.open_pool();
    const Allocation stays = memory.allocate(granule(), 0, kTag, pool);
    if (properties().touchable) std::memset(stays.data, 5, stays.bytes);
    memory.deallocate(memory.allocate(2 * granule(), 0, kTag, pool).handle);
    memory.close_pool(pool);
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(3 * granule(), 0, kTag).handle));
    EXPECT_THROW(memory.allocate(4 * granule(), 0, kTag), OutOfMemory);
    if (properties().touchable) {
        EXPECT_EQ(stays.data[granule() - 1], std::byte{5});
    }
    EXPECT_EQ(memory.trim(), 3 * granule());
    memory.deallocate(stays.handle);
    memory.trim();
    EXPECT_EQ(memory.statistics().reserved, 0u);
}

TEST_P(PoolsTest, EndWithTheirLastBlockWhateverStreamsUsedThem) {
    DeviceMemory memory(driver());
    for (int round = 0; round < 3; ++round) {
        const PoolId pool = memory.open_pool();
        std::vector<Block*> blocks;
        for (const StreamId stream : {0u, 5u, 0u, 7u}) {
            blocks.push_back(memory.allocate(granule(), stream, kTag, pool).handle);
        }
        memory.record_use(blocks[0], 9);
        memory.deallocate(blocks[1]);
        memory.close_pool(pool);
        EXPECT_GE(log().ranges.size(), 2u);
        for (const int i : {0, 2, 3}) memory.deallocate(blocks[static_cast<std::size_t>(i)]);
        EXPECT_EQ(log().ranges.size(), 1u) << "the pool's addresses were not released";
    }
    EXPECT_EQ(log().peak_created, 4 * granule()) << "a new pool takes the pages of one that has ended";
}

TEST_P(PoolsTest, EndAtATrimIfTheDeviceFailedWhenTheyWereClosed) {
    if (!asynchronous()) GTEST_SKIP() << "nothing is waited for";
    DeviceMemory memory(driver());
    const PoolId pool = memory.open_pool();
    const Allocation block = memory.allocate(granule(), 0, kTag, pool);
    memory.close_pool(pool);
    log().fail(DriverCall::synchronize, 0);
    EXPECT_NO_THROW(memory.deallocate(block.handle));
    EXPECT_EQ(memory.statistics().allocated, 0u);
    EXPECT_TRUE(log().stop_failing());
    EXPECT_EQ(memory.trim(), granule());
    EXPECT_EQ(log().ranges.size(), 1u);
}

TEST_P(PoolsTest, ReportWhatTheyHold) {
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    const PoolId pool = memory.open_pool();
    const Allocation stays = memory.allocate(granule(), 0, kTag, pool);
    memory.deallocate(memory.allocate(2 * granule(), 0, kTag, pool).handle);
    try {
        memory.allocate(6 * granule(), 0, kTag);
        FAIL() << "the pool's pages were taken";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().held_for_graphs, 2 * granule());
        EXPECT_EQ(error.report().statistics.allocated, granule());
        EXPECT_EQ(error.report().largest_obtainable, 5 * granule());
    }
    EXPECT_NO_THROW(memory.allocate(5 * granule(), 0, kTag));
    memory.deallocate(stays.handle);
}

TEST_P(PoolsTest, ShareNoBlockWithTheCommonCache) {
    DeviceMemory memory(driver());
    const PoolId pool = memory.open_pool();
    const Allocation common = memory.allocate(unit(), 0, kTag);
    const Allocation own = memory.allocate(unit(), 0, kTag, pool);
    memory.deallocate(own.handle);
    memory.deallocate(common.handle);
    EXPECT_EQ(memory.allocate(unit(), 0, kTag).data, common.data);
    EXPECT_EQ(memory.allocate(unit(), 0, kTag, pool).data, own.data);
}

INSTANTIATE_TEST_SUITE_P(Drivers, PoolsTest, all_drivers(), driver_name);

}  // namespace pools_test
}  // namespace headroom::memory::test
