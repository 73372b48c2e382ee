// Every call to the driver fails once, at every position of a program that needs all of them: nothing leaks, live
// figures are as before, and the same call succeeds when it is made again.
#include <headroom/memory/device_memory.hpp>

#include <optional>

#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/memory/happens_before.hpp>

namespace headroom::memory::test {
namespace driver_failure_test {

constexpr Tag kTag{};

/// Growth, several streams, use elsewhere, pools, pages that move, trims.
class Program {
  public:
    Program(std::unique_ptr<Driver> driver, DriverLog& log)
        : properties_(driver->properties()),
          granule_(properties_.granularity),
          log_(log),
          memory_(std::make_unique<OrderedDriver>(std::move(driver), order_), {.limit = 16 * granule_}) {}

    void run() {
        std::vector<Allocation> zero;
        for (int i = 0; i < 6; ++i) zero.push_back(allocate(granule_ + granule_ / 2, 0));
        const Allocation one = allocate(granule_, 1);
        use(zero[0], 1);
        use(zero[0], 2);
        for (std::size_t i = 0; i < zero.size(); i += 2) give_back(zero[i], 0);
        const Allocation handed_over = allocate(granule_ + granule_ / 2, 3);
        const Allocation moved = allocate(6 * granule_, 2);  // does not fit between the blocks that stay
        run_pools();
        give_back(moved, 2);
        give_back(handed_over, 3);
        attempt([&] { memory_.trim(); });
        const Allocation again = allocate(7 * granule_ + 1, 1);
        for (std::size_t i = 1; i < zero.size(); i += 2) give_back(zero[i], 0);
        give_back(again, 1);
        give_back(one, 1);
        attempt([&] { memory_.trim(); });
        EXPECT_EQ(log_.created, 0u);
        EXPECT_EQ(order_.violations(), "");
    }
    int failures() const { return failures_; }

  private:
    void run_pools() {
        PoolId pools[2] = {};
        for (PoolId& pool : pools) attempt([&] { pool = memory_.open_pool(); });
        const Allocation first = allocate(granule_, 0, pools[0]);
        const Allocation second = allocate(granule_ / 2, 3, pools[1]);
        give_back(first, 0);
        EXPECT_NO_THROW(memory_.close_pool(pools[0]));
        EXPECT_NO_THROW(memory_.close_pool(pools[1]));
        give_back(second, 3);  // ends its pool
    }
    /// Makes the call, and makes it again if it fails.
    template <class Call>
    void attempt(Call&& call) {
        const MemoryStatistics before = memory_.statistics();
        try {
            return call();
        } catch (const Error&) {
            ++failures_;
        }
        const MemoryStatistics after = memory_.statistics();
        EXPECT_EQ(after.allocated, before.allocated);
        EXPECT_EQ(after.requested, before.requested);
        EXPECT_EQ(after.peak_allocated, before.peak_allocated);
        EXPECT_EQ(after.allocations, before.allocations);
        EXPECT_EQ(after.allocated_by_category, before.allocated_by_category);
        EXPECT_EQ(after.reserved, log_.created);
        EXPECT_EQ(after.driver_calls, log_.page_calls);
        call();
    }
    Allocation allocate(std::size_t bytes, StreamId stream, PoolId pool = 0) {
        Allocation block;
        attempt([&] { block = memory_.allocate(bytes, stream, kTag, pool); });
        if (!properties_.synchronous) order_.hand_out(block.data, block.bytes, stream);
        return block;
    }
    void give_back(const Allocation& block, StreamId stream) {
        if (!properties_.synchronous) order_.use(block.data, stream);
        EXPECT_NO_THROW(memory_.deallocate(block.handle));
        EXPECT_EQ(memory_.statistics().reserved, log_.created);
    }
    void use(const Allocation& block, StreamId stream) {
        if (!properties_.synchronous) {
            order_.join(stream, 0);
            order_.use(block.data, stream);
        }
        EXPECT_NO_THROW(memory_.record_use(block.handle, stream));
    }

    const DriverProperties properties_;
    const std::size_t granule_;
    DriverLog& log_;
    HappensBefore order_;
    DeviceMemory memory_;
    int failures_ = 0;
};

class DriverFailureTest : public DriverTest {
  protected:
    /// Runs the program again and again; each time a later call of this kind fails. Returns how many positions there
    /// are.
    int fail_everywhere(DriverCall call) {
        for (int position = 0; position < 1000 && !HasFailure(); ++position) {
            SCOPED_TRACE(::testing::Message() << "call " << position);
            DriverLog log;
            log.fail(call, position);
            try {
                Program program(std::make_unique<CheckedDriver>(GetParam().make(), log), log);
                program.run();
                EXPECT_LE(program.failures(), 1);
            } catch (const DeviceError&) {
                EXPECT_EQ(position, 0) << "only the memory's own addresses can't be asked for again";
            }
            EXPECT_EQ(log.created, 0u);
            EXPECT_TRUE(log.ranges.empty());
            if (!log.stop_failing()) return position;
        }
        return 1000;
    }
};

TEST_P(DriverFailureTest, ReserveFailsAtEveryPosition) { EXPECT_EQ(fail_everywhere(DriverCall::reserve), 3); }

TEST_P(DriverFailureTest, CreateFailsAtEveryPosition) { EXPECT_GE(fail_everywhere(DriverCall::create), 16); }

TEST_P(DriverFailureTest, MapFailsAtEveryPosition) { EXPECT_GE(fail_everywhere(DriverCall::map), 9); }

TEST_P(DriverFailureTest, RecordFailsAtEveryPosition) {
    EXPECT_EQ(fail_everywhere(DriverCall::record) >= 10, asynchronous());
}

TEST_P(DriverFailureTest, WaitFailsAtEveryPosition) {
    EXPECT_EQ(fail_everywhere(DriverCall::wait) >= 1, asynchronous());
}

TEST_P(DriverFailureTest, SynchronizeFailsAtEveryPosition) {
    EXPECT_EQ(fail_everywhere(DriverCall::synchronize) >= 5, asynchronous());
}

TEST_P(DriverFailureTest, TakesFewerAddressesWhereTheyAreShort) {
    log().addresses = 40 * granule();
    DeviceMemory memory(driver(), {.limit = 16 * granule()});
    Block* const all = memory.allocate(16 * granule(), 0, kTag).handle;
    EXPECT_THROW(memory.open_pool(), DeviceError) << "it could not hold what the limit allows";
    memory.deallocate(all);
    // A block is in one range, whatever the limit is.
    memory.set_limit(64 * granule());
    std::size_t most = 0;
    try {
        memory.allocate(41 * granule(), 0, kTag);
        FAIL() << "there were not so many addresses";
    } catch (const OutOfMemory& error) {
        most = error.report().largest_obtainable;
    }
    EXPECT_GT(most, 20 * granule());
    EXPECT_LE(most, 40 * granule());
    EXPECT_THROW(memory.allocate(most + 1, 0, kTag), OutOfMemory);
    memory.trim();  // its one range is empty again, and there can't be another one
    EXPECT_NO_THROW(memory.allocate(most, 0, kTag));
    log().addresses = SIZE_MAX;
    const PoolId pool = memory.open_pool();
    EXPECT_NO_THROW(memory.allocate(granule(), 0, kTag, pool));
}

TEST_P(DriverFailureTest, ServesFromItsCacheWhenTheDeviceIsFull) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(2 * granule(), 0, kTag).handle);
    log().fail(DriverCall::create, 0, true);
    EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
    Block* const block = memory.allocate(2 * granule(), 0, kTag).handle;
    EXPECT_THROW(memory.allocate(1, 0, kTag), OutOfMemory);
    memory.deallocate(block);
    EXPECT_NO_THROW(memory.allocate(granule(), 0, kTag));
    log().stop_failing();
}

TEST_P(DriverFailureTest, MovesPagesWhenTheDeviceIsFullerThanTheLimit) {
    // Another process has the rest of the device. The slack alone would rather have new pages.
    DeviceMemory memory(driver(), {.slack = 1});
    std::vector<Block*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(memory.allocate(granule(), 0, kTag).handle);
    for (std::size_t i = 0; i < blocks.size(); i += 2) memory.deallocate(blocks[i]);
    log().fail(DriverCall::create, 0, true);
    EXPECT_THROW(memory.allocate(6 * granule(), 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.allocate(5 * granule(), 0, kTag));
    log().stop_failing();
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverFailureTest, all_drivers(), driver_name);

}  // namespace driver_failure_test
}  // namespace headroom::memory::test
