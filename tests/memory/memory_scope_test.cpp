// A scope tells the peak above what was live at its beginning, whatever else is measured at the same time.
#include <headroom/memory/memory_scope.hpp>

#include <thread>
#include <vector>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace memory_scope_test {

constexpr Tag kTag{};

class MemoryScopeTest : public DriverTest {};

TEST_P(MemoryScopeTest, BeginsWithNothing) {
    DeviceMemory memory(driver());
    memory.allocate(10 * unit(), 0, kTag);
    const MemoryScope scope(memory);
    EXPECT_EQ(scope.peak(), 0u);
    EXPECT_EQ(scope.live(), 0);
}

TEST_P(MemoryScopeTest, CountsThePeakAboveTheEntry) {
    DeviceMemory memory(driver());
    const Allocation before = memory.allocate(10 * unit(), 0, kTag);
    const MemoryScope scope(memory);
    memory.deallocate(memory.allocate(3 * unit(), 0, kTag).handle);
    const Allocation kept = memory.allocate(unit(), 1, kTag);
    EXPECT_EQ(scope.peak(), 3 * unit());
    EXPECT_EQ(scope.live(), static_cast<std::int64_t>(unit()));
    memory.deallocate(before.handle);
    EXPECT_EQ(scope.live(), -9 * static_cast<std::int64_t>(unit()));
    memory.deallocate(memory.allocate(11 * unit(), 0, kTag).handle);
    EXPECT_EQ(scope.peak(), 3 * unit()) << "12 were live, 10 at the entry";
    memory.deallocate(memory.allocate(13 * unit(), 0, kTag).handle);
    EXPECT_EQ(scope.peak(), 4 * unit());
    memory.deallocate(kept.handle);
}

TEST_P(MemoryScopeTest, SeesAPeakBelowOneThatWasBefore) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(100 * unit(), 0, kTag).handle);
    const MemoryScope scope(memory);
    for (int i = 0; i < 3; ++i) memory.deallocate(memory.allocate(5 * unit(), 0, kTag).handle);
    EXPECT_EQ(scope.peak(), 5 * unit());
    EXPECT_EQ(memory.statistics().peak_allocated, 100 * unit());
}

TEST_P(MemoryScopeTest, MayBeNested) {
    DeviceMemory memory(driver());
    const MemoryScope outer(memory);
    memory.deallocate(memory.allocate(7 * unit(), 0, kTag).handle);
    memory.allocate(2 * unit(), 0, kTag);
    {
        const MemoryScope inner(memory);
        memory.deallocate(memory.allocate(4 * unit(), 0, kTag).handle);
        EXPECT_EQ(inner.peak(), 4 * unit());
        EXPECT_EQ(outer.peak(), 7 * unit());
        memory.deallocate(memory.allocate(6 * unit(), 0, kTag).handle);
        EXPECT_EQ(inner.peak(), 6 * unit());
        EXPECT_EQ(outer.peak(), 8 * unit());
    }
    memory.deallocate(memory.allocate(7 * unit(), 0, kTag).handle);
    EXPECT_EQ(outer.peak(), 9 * unit());
    const MemoryScope second(memory);
    EXPECT_EQ(second.peak(), 0u) << "takes the place of one that has ended";
}

TEST_P(MemoryScopeTest, IsNotDisturbedByAResetOfThePeak) {
    DeviceMemory memory(driver());
    const MemoryScope scope(memory);
    memory.deallocate(memory.allocate(7 * unit(), 0, kTag).handle);
    memory.reset_peak();
    EXPECT_EQ(memory.statistics().peak_allocated, 0u);
    EXPECT_EQ(scope.peak(), 7 * unit());
}

TEST_P(MemoryScopeTest, SeesWhatAllThreadsAllocate) {
    DeviceMemory memory(driver());
    constexpr StreamId kThreads = 4;
    constexpr std::size_t kBlocks = 50;
    const MemoryScope all(memory);
    std::vector<std::vector<Block*>> blocks(kThreads);
    std::vector<std::thread> threads;
    for (StreamId stream = 0; stream < kThreads; ++stream) {
        threads.emplace_back([&, stream] {
            const MemoryScope own(memory);
            for (std::size_t i = 0; i < kBlocks; ++i) {
                blocks[stream].push_back(memory.allocate(unit(), stream, kTag).handle);
            }
            EXPECT_GE(own.peak(), kBlocks * unit());
            EXPECT_LE(own.peak(), kThreads * kBlocks * unit());
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(all.peak(), kThreads * kBlocks * unit());
    for (const auto& mine : blocks) {
        for (Block* block : mine) memory.deallocate(block);
    }
    EXPECT_EQ(all.live(), 0);
    EXPECT_EQ(memory.statistics().peak_allocated, kThreads * kBlocks * unit());
}

INSTANTIATE_TEST_SUITE_P(Drivers, MemoryScopeTest, all_drivers(), driver_name);

}  // namespace memory_scope_test
}  // namespace headroom::memory::test
