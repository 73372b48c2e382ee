// What the caching allocator promises on every driver.
#include <headroom/memory/device_memory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace device_memory_test {

using headroom::test::throws;

constexpr Tag kTag{};

class DeviceMemoryTest : public DriverTest {};

TEST_P(DeviceMemoryTest, RoundsUpToTheAlignmentAndAligns) {
    DeviceMemory memory(driver());
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, unit() - 1, unit(), unit() + 1, std::size_t{1000},
                                    granule() - 1, granule(), granule() + 1, 5 * granule() + 77}) {
        const Allocation block = memory.allocate(bytes, 0, kTag);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % unit(), 0u) << bytes;
        EXPECT_EQ(block.bytes, std::max(unit(), (bytes + unit() - 1) / unit() * unit())) << bytes;
        if (properties().touchable) std::memset(block.data, 7, bytes);
    }
}

TEST_P(DeviceMemoryTest, ReusesAFreedBlockWithoutCallingTheDriver) {
    DeviceMemory memory(driver());
    const Allocation first = memory.allocate(1000, 0, kTag);
    const Allocation second = memory.allocate(1000, 0, kTag);
    const auto calls = log().page_calls;
    memory.deallocate(first.handle);
    EXPECT_EQ(memory.allocate(1000, 0, kTag).data, first.data);
    EXPECT_NE(first.data, second.data);
    EXPECT_EQ(log().page_calls, calls);
    EXPECT_EQ(memory.statistics().driver_calls, calls);
}

TEST_P(DeviceMemoryTest, PrefersAFreedBlockOfTheSameSizeToSplittingALargerOne) {
    DeviceMemory memory(driver());
    // Not a lower bound of its size class, so that a search from the next class on would miss it.
    const std::size_t bytes = 1001 * unit();
    const Allocation same = memory.allocate(bytes, 0, kTag);
    memory.allocate(1, 0, kTag);
    const Allocation larger = memory.allocate(2 * bytes, 0, kTag);
    memory.allocate(1, 0, kTag);
    memory.deallocate(same.handle);
    memory.deallocate(larger.handle);
    EXPECT_EQ(memory.allocate(bytes, 0, kTag).data, same.data);
}

TEST_P(DeviceMemoryTest, CoalescesWhatWasFreedInAnyOrder) {
    std::mt19937 random(headroom::test::random_seed());
    DeviceMemory memory(driver());
    std::vector<Block*> blocks;
    for (int i = 0; i < 300; ++i) blocks.push_back(memory.allocate(random() % (granule() / 8), 0, kTag).handle);
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (Block* block : blocks) memory.deallocate(block);
    const auto before = memory.statistics();
    EXPECT_EQ(before.allocated, 0u);
    memory.allocate(before.reserved, 0, kTag);
    EXPECT_EQ(memory.statistics().driver_calls, before.driver_calls);
}

TEST_P(DeviceMemoryTest, ExtendsAFreeTailInsteadOfStartingBehindIt) {
    DeviceMemory memory(driver());
    const std::size_t one_and_a_half = (granule() + granule() / 2) / unit() * unit();
    const Allocation first = memory.allocate(one_and_a_half, 0, kTag);
    const Allocation second = memory.allocate(one_and_a_half, 0, kTag);
    EXPECT_EQ(second.data, first.data + one_and_a_half);
    EXPECT_EQ(memory.statistics().reserved, 3 * granule());
    EXPECT_EQ(log().created, 3 * granule());
}

TEST_P(DeviceMemoryTest, ReservesAtMostTheLimitAndAllOfIt) {
    // Not a multiple of a granule: the last part of the limit can't be used, and is not.
    DeviceMemory memory(driver(), {.limit = 5 * granule() + granule() / 2});
    EXPECT_EQ(memory.limit(), 5 * granule() + granule() / 2);
    std::vector<Block*> blocks;
    EXPECT_THROW(while (true) blocks.push_back(memory.allocate(granule() / 4, 0, kTag).handle), OutOfMemory);
    EXPECT_EQ(memory.statistics().reserved, 5 * granule());
    EXPECT_EQ(log().peak_created, 5 * granule());
    EXPECT_EQ(blocks.size(), 20u);
    for (Block* block : blocks) memory.deallocate(block);
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(5 * granule(), 0, kTag).handle));
    EXPECT_THROW(memory.allocate(5 * granule() + 1, 0, kTag), OutOfMemory);
}

TEST_P(DeviceMemoryTest, TreatsTheDeviceAsALimit) {
    DeviceMemory memory(driver());
    EXPECT_EQ(memory.limit(), 0u);
    EXPECT_THROW(memory.allocate(properties().total_bytes + 1, 0, kTag), OutOfMemory);
    EXPECT_THROW(memory.allocate(SIZE_MAX, 0, kTag), OutOfMemory);
    EXPECT_THROW(memory.allocate(SIZE_MAX - 2 * unit(), 0, kTag), OutOfMemory);
    EXPECT_EQ(memory.statistics().reserved, 0u);
}

TEST_P(DeviceMemoryTest, TakesAFractionOfTheDevice) {
    const double fraction = 8.5 * static_cast<double>(granule()) / static_cast<double>(properties().total_bytes);
    DeviceMemory memory(driver(), {.fraction = fraction});
    EXPECT_EQ(memory.limit(), static_cast<std::size_t>(static_cast<double>(properties().total_bytes) * fraction));
    EXPECT_THROW(memory.allocate(9 * granule(), 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.allocate(8 * granule(), 0, kTag));
    EXPECT_EQ(memory.snapshot().limit, 8 * granule());
}

TEST_P(DeviceMemoryTest, LeavesAReserveToOthers) {
    const std::size_t reserve = properties().total_bytes - 8 * granule();
    DeviceMemory memory(driver(), {.reserve = reserve});
    EXPECT_EQ(memory.limit(), 0u) << "none was set";
    EXPECT_THROW(memory.allocate(9 * granule(), 0, kTag), OutOfMemory);
    memory.deallocate(memory.allocate(8 * granule(), 0, kTag).handle);
    memory.set_limit(100 * granule());
    EXPECT_THROW(memory.allocate(9 * granule(), 0, kTag), OutOfMemory) << "a limit takes nothing of it";
    memory.set_limit(5 * granule());
    EXPECT_THROW(memory.allocate(6 * granule(), 0, kTag), OutOfMemory);
    memory.set_limit(0);
    memory.deallocate(memory.allocate(8 * granule(), 0, kTag).handle);
    try {
        memory.allocate(9 * granule(), 0, kTag);
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.report().reserve, reserve);
        EXPECT_LE(error.report().available(), 9 * granule());
        EXPECT_THAT(error.what(), testing::HasSubstr("less the reserve of " + format_bytes(reserve)));
    }
}

TEST_P(DeviceMemoryTest, RefusesAReserveThatLeavesLessThanAPage) {
    const std::size_t reserve = properties().total_bytes - granule() + 1;
    EXPECT_THAT([&] { DeviceMemory(driver(), {.reserve = reserve}); },
                throws<Error>(fmt::format("memory reserve: {} of the ", reserve), "which leaves less than a page"));
}

TEST_P(DeviceMemoryTest, RefusesOptionsOutOfRange) {
    for (const double fraction : {0.0, -1.0, 1.5}) {
        EXPECT_THROW(DeviceMemory(driver(), {.fraction = fraction}), Error) << fraction;
    }
    for (const double slack : {-0.1, 1e9, std::nan(""), std::numeric_limits<double>::infinity()}) {
        EXPECT_THAT([&] { DeviceMemory(driver(), {.slack = slack}); },
                    throws<Error>(fmt::format("slack {} must be at least 0 and at most 1000", slack)));
    }
}

TEST_P(DeviceMemoryTest, RefusesALimitOfLessThanAPage) {
    const std::string page = fmt::format("bytes are less than a page of {} bytes", granule());
    EXPECT_THAT([&] { DeviceMemory(driver(), {.limit = granule() - 1}); },
                throws<Error>(fmt::format("memory limit: {} ", granule() - 1), page));
    EXPECT_THAT([&] { DeviceMemory(driver(), {.fraction = 1e-300}); }, throws<Error>(page));
    DeviceMemory memory(driver(), {.limit = granule()});
    EXPECT_THAT([&] { memory.set_limit(1); }, throws<Error>(page));
    EXPECT_EQ(memory.limit(), granule());
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    DriverProperties small = properties();
    small.total_bytes = granule() - 1;
    EXPECT_THAT([&] { DeviceMemory(make_simulated_driver({.properties = small})); },
                throws<DeviceError>("is less than a page"));
}

TEST_P(DeviceMemoryTest, TrimGivesBackPagesBehindTheLastLiveBlock) {
    DeviceMemory memory(driver());
    const Allocation first = memory.allocate(granule() / 2, 0, kTag);
    const Allocation second = memory.allocate(4 * granule(), 0, kTag);
    ASSERT_EQ(memory.statistics().reserved, 5 * granule());
    EXPECT_EQ(memory.trim(), 0u) << "the rest of the last page is smaller than a page";
    memory.deallocate(second.handle);
    EXPECT_EQ(memory.trim(), 4 * granule());
    EXPECT_EQ(memory.statistics().reserved, granule());
    EXPECT_EQ(memory.statistics().peak_reserved, 5 * granule());
    EXPECT_EQ(log().created, granule());
    memory.deallocate(first.handle);
    EXPECT_EQ(memory.trim(), granule());
    EXPECT_EQ(memory.statistics().reserved, 0u);
    const Allocation again = memory.allocate(3 * granule(), 0, kTag);
    if (properties().touchable) std::memset(again.data, 1, 3 * granule());
    EXPECT_EQ(memory.statistics().reserved, 3 * granule());
}

TEST_P(DeviceMemoryTest, TrimGivesBackPagesBetweenLiveBlocks) {
    DeviceMemory memory(driver());
    const Allocation first = memory.allocate(granule() + granule() / 2, 0, kTag);
    const Allocation middle = memory.allocate(4 * granule(), 0, kTag);
    const Allocation last = memory.allocate(granule() / 2, 0, kTag);
    memory.deallocate(middle.handle);
    if (properties().touchable) std::memset(first.data, 1, first.bytes);
    EXPECT_EQ(memory.trim(), 3 * granule()) << "all but the parts of pages beside the live blocks";
    EXPECT_EQ(memory.statistics().reserved, 3 * granule());
    EXPECT_EQ(memory.trim(), 0u);
    const Allocation again = memory.allocate(4 * granule(), 0, kTag);
    EXPECT_EQ(again.data, middle.data) << "the hole is filled again";
    if (properties().touchable) std::memset(again.data, 2, again.bytes);
    if (properties().touchable) {
        EXPECT_EQ(first.data[first.bytes - 1], std::byte{1});
    }
    memory.deallocate(last.handle);
}

TEST_P(DeviceMemoryTest, ReturnsAllPagesEvenThoseOfLiveBlocks) {
    {
        DeviceMemory memory(driver());
        memory.allocate(3 * granule(), 0, kTag);
        memory.allocate(granule(), 0, kTag, memory.open_pool());
        EXPECT_EQ(log().created, 4 * granule());
    }
    EXPECT_EQ(log().created, 0u);
    EXPECT_TRUE(log().ranges.empty());
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryTest, all_drivers(), driver_name);

}  // namespace device_memory_test
}  // namespace headroom::memory::test
