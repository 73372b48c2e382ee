// When a block may be used again, and by whom.
#include <headroom/memory/device_memory.hpp>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::testing {
namespace {

constexpr Tag kTag{Category::activations, 0};
using Waits = std::vector<std::pair<StreamId, StreamId>>;

class DeviceMemoryStreamsTest : public DriverTest {};

TEST_P(DeviceMemoryStreamsTest, ReusesOnTheSameStreamWithoutAnEvent) {
    DeviceMemory memory(driver());
    for (int i = 0; i < 10; ++i) memory.deallocate(memory.allocate(granule(), 3, kTag).handle);
    EXPECT_TRUE(log().recorded_on.empty());
    EXPECT_TRUE(log().waits.empty());
    EXPECT_EQ(memory.statistics().reserved, granule());
}

TEST_P(DeviceMemoryStreamsTest, MakesAnotherStreamWait) {
    DeviceMemory memory(driver(), {.limit = granule()});
    const Allocation block = memory.allocate(granule(), 0, kTag);
    memory.deallocate(block.handle);
    EXPECT_EQ(memory.allocate(granule(), 1, kTag).data, block.data);
    EXPECT_EQ(log().waits, (Waits{{1, 0}}));
}

TEST_P(DeviceMemoryStreamsTest, DoesNotWaitAgainOnceHandedOver) {
    DeviceMemory memory(driver(), {.limit = granule()});
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    for (int i = 0; i < 3; ++i) memory.deallocate(memory.allocate(granule(), 1, kTag).handle);
    EXPECT_EQ(log().waits, (Waits{{1, 0}}));
}

TEST_P(DeviceMemoryStreamsTest, PrefersBlocksOfItsOwnStream) {
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

TEST_P(DeviceMemoryStreamsTest, WaitsForEveryStreamThatUsedPartOfAMergedBlock) {
    DeviceMemory memory(driver(), {.limit = 3 * granule()});
    std::vector<Block*> blocks;
    for (const StreamId stream : {0u, 1u, 63u}) blocks.push_back(memory.allocate(granule(), stream, kTag).handle);
    log().waits.clear();
    for (Block* block : blocks) memory.deallocate(block);
    memory.allocate(3 * granule(), 1, kTag);
    EXPECT_EQ(log().waits, (Waits{{1, 0}, {1, 63}}));
}

TEST_P(DeviceMemoryStreamsTest, LeavesEverythingAsItWasWhenTheWaitFails) {
    for (const bool record : {true, false}) {
        DeviceMemory memory(driver(), {.limit = granule()});
        memory.deallocate(memory.allocate(granule() / 2, 0, kTag).handle);
        const MemoryStatistics before = memory.statistics();
        (record ? log().fail_record_in : log().fail_wait_in) = 0;
        EXPECT_THROW(memory.allocate(unit(), 1, kTag), DeviceError);
        EXPECT_EQ(memory.statistics(), before);
        memory.deallocate(memory.allocate(granule(), 1, kTag).handle);
        memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryStreamsTest, all_drivers(), driver_name);

}  // namespace
}  // namespace headroom::testing
