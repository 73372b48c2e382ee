// Small blocks that stay for long pin few pages, since they lie in pages of their own.
#include <headroom/memory/device_memory.hpp>

#include <cstring>
#include <random>
#include <string>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace small_blocks_test {

constexpr Tag kTag{};

class SmallBlocksTest : public DriverTest {
  protected:
    std::size_t small() const { return granule() / 512 / unit() * unit(); }
    /// Each temporary block is of a page and a half, and a small one comes after it that stays.
    std::vector<Block*> keep_small_ones_between_large(DeviceMemory& memory, int count, PoolId pool = 0) {
        std::vector<Block*> temporary;
        std::vector<Block*> kept;
        for (int i = 0; i < count; ++i) {
            temporary.push_back(memory.allocate(granule() / 2 * 3, 0, kTag, pool).handle);
            kept.push_back(memory.allocate(small(), 0, kTag, pool).handle);
        }
        for (Block* block : temporary) memory.deallocate(block);
        return kept;
    }
};

TEST_P(SmallBlocksTest, LeaveTheirNeighboursPagesToLargeRequests) {
    constexpr std::size_t kPages = 400;
    DeviceMemory memory(driver(), {.limit = kPages * granule()});
    const std::vector<Block*> kept = keep_small_ones_between_large(memory, 250);
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(kPages / 10 * 8 * granule(), 0, kTag).handle));
    for (Block* block : kept) memory.deallocate(block);
}

TEST_P(SmallBlocksTest, DoSoInAPrivatePoolToo) {
    DeviceMemory memory(driver(), {.limit = 400 * granule()});
    const PoolId pool = memory.open_pool();
    keep_small_ones_between_large(memory, 250, pool);
    memory.close_pool(pool);
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(320 * granule(), 0, kTag).handle));
}

TEST_P(SmallBlocksTest, CostNoPageOfTheirOwnBeyondTheSlack) {
    DeviceMemory memory(driver(), {.limit = 16 * granule()});
    for (int i = 0; i < 3; ++i) {
        memory.allocate(granule() / 4 * 3, 0, kTag);
        memory.allocate(small(), 0, kTag);
    }
    EXPECT_EQ(memory.statistics().reserved, 3 * granule());
}

TEST_P(SmallBlocksTest, TakeWhatIsLeftOfOtherPagesBeforeARefusal) {
    DeviceMemory memory(driver(), {.limit = 4 * granule(), .slack = 1});
    memory.allocate(small(), 0, kTag);
    memory.allocate(3 * granule() - small(), 0, kTag);  // its own page is full but for this
    std::size_t served = 0;
    try {
        while (true) served += memory.allocate(small(), 0, kTag).bytes;
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().cached, 0u);
    }
    EXPECT_EQ(served, granule());
    EXPECT_EQ(memory.statistics().allocated, 4 * granule());
}

TEST_P(SmallBlocksTest, LeaveTheirPagesToLargeRequestsWhenTheyAreGone) {
    DeviceMemory memory(driver(), {.limit = 64 * granule(), .slack = 1});
    std::vector<Block*> blocks;
    while (memory.statistics().allocated < 60 * granule()) {
        blocks.push_back(memory.allocate(granule() / 16 / unit() * unit(), 0, kTag).handle);
    }
    for (Block* block : blocks) memory.deallocate(block);
    EXPECT_NO_THROW(memory.allocate(64 * granule(), 0, kTag));
}

TEST_P(SmallBlocksTest, AreToldOfInTheReport) {
    DeviceMemory memory(driver(), {.limit = 16 * granule()});
    std::vector<Block*> temporary;
    for (int i = 0; i < 4; ++i) {
        temporary.push_back(memory.allocate(granule(), 0, kTag).handle);
        memory.allocate(granule(), 0, kTag);
    }
    memory.allocate(unit(), 0, kTag);
    for (Block* block : temporary) memory.deallocate(block);
    try {
        memory.allocate(17 * granule(), 0, kTag);
        FAIL() << "more than the limit";
    } catch (const OutOfMemory& error) {
        const MemoryReport& report = error.report();
        EXPECT_EQ(report.live_pages, 5u);
        EXPECT_EQ(report.beside_live, granule() - unit());
        EXPECT_EQ(report.cached, 5 * granule() - unit());
        EXPECT_NE(report.to_string().find("in 5 pages with live blocks"), std::string::npos) << report.to_string();
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, SmallBlocksTest, all_drivers(), driver_name);

TEST(SmallBlocks, AfterATrainingLeaveRoomForThreeQuartersOfTheLimit) {
    SimulatedOptions options;
    options.properties = {.name = "simulated GPU",
                          .granularity = 2 << 20,
                          .alignment = 512,
                          .total_bytes = std::size_t{16} << 30,
                          .address_bytes = std::size_t{1} << 40,
                          .touchable = false};
    DeviceMemory memory(make_simulated_driver(options), {.limit = std::size_t{4} << 30});
    std::vector<Block*> temporary;
    for (int i = 0; i < 1000; ++i) {
        temporary.push_back(memory.allocate(3 << 20, 0, kTag).handle);
        memory.allocate(4096, 0, kTag);
    }
    for (Block* block : temporary) memory.deallocate(block);
    EXPECT_NO_THROW(memory.allocate(std::size_t{3} << 30, 0, kTag)) << "4.1 MB are live";
}

}  // namespace small_blocks_test
}  // namespace headroom::memory::test
