// Every call to the driver may fail; nothing leaks and the next call works.
#include <headroom/memory/device_memory.hpp>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::testing {
namespace {

constexpr Tag kTag{Category::activations, 0};

class DriverFailureTest : public DriverTest {
  protected:
    /// Grows three times within live blocks and checks after each failure that it never happened.
    template <class Failure>
    void expect_survival(std::int64_t DriverLog::*countdown) {
        for (int position = 0; position < 10; ++position) {
            SCOPED_TRACE(::testing::Message() << "call " << position);
            DeviceMemory memory(driver());
            log().*countdown = position;
            int failures = 0;
            std::vector<Block*> blocks;
            for (int i = 0; i < 3; ++i) {
                const MemoryStatistics before = memory.statistics();
                try {
                    blocks.push_back(memory.allocate(3 * granule() + 1, 0, kTag).handle);
                } catch (const Failure&) {
                    ++failures;
                    expect_same(memory.statistics(), before);
                    blocks.push_back(memory.allocate(3 * granule() + 1, 0, kTag).handle);
                }
            }
            EXPECT_EQ(failures, 1);
            EXPECT_EQ(memory.statistics().reserved, log().created);
            for (Block* block : blocks) memory.deallocate(block);
            memory.trim();
            EXPECT_EQ(log().created, 0u);
        }
    }
    static void expect_same(MemoryStatistics now, const MemoryStatistics& before) {
        now.driver_calls = before.driver_calls;
        EXPECT_EQ(now, before);
    }
};

TEST_P(DriverFailureTest, SurvivesAPageThatCannotBeMade) { expect_survival<OutOfMemory>(&DriverLog::fail_create_in); }

TEST_P(DriverFailureTest, SurvivesAPageThatCannotBeMapped) { expect_survival<DeviceError>(&DriverLog::fail_map_in); }

TEST_P(DriverFailureTest, ServesFromItsCacheWhenTheDeviceIsFull) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(2 * granule(), 0, kTag).handle);
    log().fail_create_in = 0;
    log().fail_for_ever = true;
    EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
    Block* const block = memory.allocate(2 * granule(), 0, kTag).handle;
    EXPECT_THROW(memory.allocate(1, 0, kTag), OutOfMemory);
    memory.deallocate(block);
    EXPECT_NO_THROW(memory.allocate(granule(), 0, kTag));
}

TEST_P(DriverFailureTest, TakesOtherPoolsPagesWhenTheDeviceIsFull) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(2 * granule(), 0, kTag, 1).handle);
    log().fail_create_in = 0;
    EXPECT_NO_THROW(memory.allocate(2 * granule(), 0, kTag));
    EXPECT_EQ(memory.statistics().reserved, 2 * granule());
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverFailureTest, all_drivers(), driver_name);

}  // namespace
}  // namespace headroom::testing
