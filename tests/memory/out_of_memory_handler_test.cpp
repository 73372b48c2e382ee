// What a program does when memory does not suffice: give something back in a handler, or change the limit.
#include <headroom/memory/device_memory.hpp>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace out_of_memory_handler_test {

constexpr Tag kTag{};

class OutOfMemoryHandler : public DriverTest {};

TEST_P(OutOfMemoryHandler, GivesMemoryBackUntilTheRequestFits) {
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    std::vector<Block*> spare;
    for (int i = 0; i < 8; ++i) spare.push_back(memory.allocate(granule(), 0, kTag).handle);
    std::vector<std::size_t> asked;
    memory.on_out_of_memory([&](const MemoryReport& report) {
        asked.push_back(report.requested);
        if (spare.empty()) return false;
        memory.deallocate(spare.back());
        spare.pop_back();
        return true;
    });
    const Allocation three = memory.allocate(3 * granule(), 0, kTag);
    EXPECT_EQ(asked, std::vector<std::size_t>(3, 3 * granule()));
    EXPECT_EQ(memory.statistics().retries, 3u);
    EXPECT_EQ(memory.statistics().refusals, 0u);
    EXPECT_THROW(memory.allocate(6 * granule(), 0, kTag), OutOfMemory) << "there is no more to give";
    EXPECT_TRUE(spare.empty());
    EXPECT_EQ(memory.statistics().retries, 8u);
    EXPECT_EQ(memory.statistics().refusals, 1u);
    memory.on_out_of_memory({});
    asked.clear();
    EXPECT_THROW(memory.allocate(6 * granule(), 0, kTag), OutOfMemory);
    EXPECT_TRUE(asked.empty());
    memory.deallocate(three.handle);
}

TEST_P(OutOfMemoryHandler, IsNotCalledForItsOwnRequests) {
    DeviceMemory memory(driver(), {.limit = 2 * granule()});
    int calls = 0;
    memory.on_out_of_memory([&](const MemoryReport&) {
        ++calls;
        EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
        return false;
    });
    EXPECT_THROW(memory.allocate(4 * granule(), 0, kTag), OutOfMemory);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(memory.statistics().refusals, 2u);
}

TEST_P(OutOfMemoryHandler, MayThrow) {
    DeviceMemory memory(driver(), {.limit = 2 * granule(), .history = 10});
    memory.on_out_of_memory([](const MemoryReport&) -> bool { throw std::runtime_error("enough"); });
    EXPECT_THROW(memory.allocate(4 * granule(), 0, kTag), std::runtime_error);
    EXPECT_THROW(memory.allocate(4 * granule(), 0, kTag), std::runtime_error) << "the next request calls it again";
    EXPECT_EQ(memory.statistics().refusals, 0u) << "neither ended with OutOfMemory";
    EXPECT_EQ(memory.snapshot().events.size(), 2u);
    EXPECT_NO_THROW(memory.allocate(granule(), 0, kTag));
}

TEST_P(OutOfMemoryHandler, ServesSeveralThreads) {
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    std::atomic<int> calls{0};
    memory.on_out_of_memory([&](const MemoryReport&) {
        ++calls;
        std::this_thread::yield();
        return true;
    });
    std::vector<std::thread> threads;
    for (StreamId stream = 0; stream < 4; ++stream) {
        threads.emplace_back([&memory, stream, this] {
            for (int i = 0; i < 200; ++i) memory.deallocate(memory.allocate(5 * granule(), stream, kTag).handle);
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(memory.statistics().retries, static_cast<std::uint64_t>(calls));
    EXPECT_EQ(memory.statistics().refusals, 0u);
}

TEST_P(OutOfMemoryHandler, MayRaiseTheLimit) {
    DeviceMemory memory(driver(), {.limit = 2 * granule()});
    memory.on_out_of_memory([&](const MemoryReport& report) {
        memory.set_limit(report.limit + granule());
        return true;
    });
    EXPECT_NO_THROW(memory.allocate(5 * granule(), 0, kTag));
    EXPECT_EQ(memory.limit(), 5 * granule());
    EXPECT_EQ(memory.statistics().reserved, 5 * granule());
}

TEST_P(OutOfMemoryHandler, ALowerLimitTakesUnusedPagesNowAndOthersWhenTheyAreUnused) {
    DeviceMemory memory(driver(), {.limit = 16 * granule()});
    const Allocation stays = memory.allocate(4 * granule(), 0, kTag);
    const Allocation goes = memory.allocate(4 * granule(), 0, kTag);
    memory.deallocate(memory.allocate(8 * granule(), 0, kTag).handle);
    memory.set_limit(6 * granule());
    EXPECT_EQ(memory.limit(), 6 * granule());
    EXPECT_EQ(memory.statistics().reserved, 8 * granule()) << "what is live stays";
    EXPECT_THROW(memory.allocate(1, 0, kTag), OutOfMemory);
    memory.deallocate(goes.handle);
    EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
    EXPECT_EQ(memory.statistics().reserved, 6 * granule());
    EXPECT_NO_THROW(memory.allocate(2 * granule(), 0, kTag));
    memory.set_limit(0);
    EXPECT_NO_THROW(memory.allocate(10 * granule(), 0, kTag));
    memory.deallocate(stays.handle);
}

TEST_P(OutOfMemoryHandler, FiguresOfPoolsAddUp) {
    DeviceMemory memory(driver());
    const PoolId pool = memory.open_pool();
    const Allocation a = memory.allocate(3 * granule(), 0, kTag);
    memory.allocate(5, 2, kTag);
    const Allocation c = memory.allocate(granule(), 2, kTag, pool);
    memory.deallocate(memory.allocate(granule(), 2, kTag, pool).handle);
    const std::vector<PoolStatistics> pools = memory.pool_statistics();
    ASSERT_EQ(pools.size(), 2u);
    EXPECT_EQ(pools[0], (PoolStatistics{0, false, 3 * granule() + unit(), 4 * granule()}));
    EXPECT_EQ(pools[1], (PoolStatistics{pool, true, granule(), 2 * granule()}));
    memory.close_pool(pool);
    EXPECT_FALSE(memory.pool_statistics()[1].open);
    memory.deallocate(c.handle);
    EXPECT_EQ(memory.pool_statistics().size(), 1u);
    memory.deallocate(a.handle);
}

INSTANTIATE_TEST_SUITE_P(Drivers, OutOfMemoryHandler, all_drivers(), driver_name);

}  // namespace out_of_memory_handler_test
}  // namespace headroom::memory::test
