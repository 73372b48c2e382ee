// What the pool of page-locked memory promises, on the host, on a simulated device and on a fake GPU.
#include <headroom/memory/pinned_pool.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <headroom/memory/error.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace pinned_pool_test {

constexpr std::size_t kKiB = 1024;

class PinnedPoolTest : public DriverTest {
#if HEADROOM_HAS_CUDA
  protected:
    void TearDown() override {
        EXPECT_EQ(fake_cuda::usage(), fake_cuda::Usage{});
        DriverTest::TearDown();
    }
#endif
};

TEST_P(PinnedPoolTest, BlocksArePowersOfTwoFrom4KiB) {
    PinnedPool pool(driver());
    const std::pair<std::size_t, std::size_t> sizes[] = {{0, 4096},    {1, 4096},     {4096, 4096},        {4097, 8192},
                                                         {8192, 8192}, {8193, 16384}, {3'000'000, 4 << 20}};
    for (const auto& [bytes, held] : sizes) {
        const PinnedBlock block = pool.allocate(bytes);
        EXPECT_EQ(block.bytes(), bytes);
        EXPECT_EQ(pool.statistics().live, held) << bytes;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0u);
        if (properties().touchable) std::memset(block.data(), 1, held);
    }
    EXPECT_EQ(pool.statistics().live, 0u);
}

TEST_P(PinnedPoolTest, ABlockThatNoStreamUsedServesTheNextRequest) {
    PinnedPool pool(driver());
    std::byte* const first = pool.allocate(5000).data();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(pool.allocate(8000).data(), first);
    const PinnedStatistics s = pool.statistics();
    EXPECT_EQ(s.driver_calls, 1u);
    EXPECT_EQ(s.allocations, 101u);
    EXPECT_EQ(s.cached, 8192u);
    EXPECT_EQ(s.peak_held, 8192u);
}

TEST_P(PinnedPoolTest, ABlockMayBeMovedAndIsGivenBackOnce) {
    PinnedPool pool(driver());
    PinnedBlock a = pool.allocate(100);
    std::byte* const data = a.data();
    PinnedBlock b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(a.data(), nullptr);
    EXPECT_EQ(b.data(), data);
    a = pool.allocate(100);
    EXPECT_NE(a.data(), data);
    a = std::move(b);
    EXPECT_EQ(a.data(), data);
    EXPECT_EQ(pool.statistics().live, 4096u);
    EXPECT_EQ(pool.statistics().cached, 4096u);
    a.reset();
    a.reset();
    EXPECT_EQ(pool.statistics().cached, 8192u);
    EXPECT_THROW(a.record_use(0), Error);
}

TEST_P(PinnedPoolTest, ABlockMayOutliveThePool) {
    PinnedBlock block;
    {
        PinnedPool pool(driver());
        block = pool.allocate(10'000);
        block.record_use(1);
    }
    if (properties().touchable) std::memset(block.data(), 1, 10'000);
    block.reset();
    EXPECT_TRUE(log().events.empty());
}

TEST_P(PinnedPoolTest, TrimGivesBackAllThatIsNotInUse) {
    PinnedPool pool(driver());
    const PinnedBlock kept = pool.allocate(4096);
    {
        PinnedBlock a = pool.allocate(4096), b = pool.allocate(100'000), c = pool.allocate(100'000);
        b.record_use(0);
        c.record_use(2);
    }
    EXPECT_EQ(pool.trim(), 4096u + 2 * 131072u);
    EXPECT_EQ(pool.trim(), 0u);
    const PinnedStatistics s = pool.statistics();
    EXPECT_EQ(s.held(), 4096u);
    EXPECT_EQ(s.live, 4096u);
    EXPECT_EQ(s.peak_held, 8192u + 2 * 131072u);
    EXPECT_TRUE(log().events.empty());
    pool.reset_peak();
    EXPECT_EQ(pool.statistics().peak_held, 4096u);
    EXPECT_EQ(pool.statistics().peak_live, 4096u);
}

TEST_P(PinnedPoolTest, TheLimitIsKeptByGivingBackWhatIsCached) {
    PinnedPool pool(driver(), {.limit = 64 * kKiB});
    { const PinnedBlock small[] = {pool.allocate(8 * kKiB), pool.allocate(8 * kKiB), pool.allocate(16 * kKiB)}; }
    const PinnedBlock half = pool.allocate(32 * kKiB);
    EXPECT_EQ(pool.statistics().held(), 64 * kKiB);
    const PinnedBlock other = pool.allocate(32 * kKiB);
    EXPECT_EQ(pool.statistics().held(), 64 * kKiB);
    EXPECT_EQ(pool.statistics().cached, 0u);
    EXPECT_EQ(pool.statistics().peak_held, 64 * kKiB);
}

TEST_P(PinnedPoolTest, OutOfMemoryNamesTheFiguresAndChangesNothing) {
    PinnedPool pool(driver(), {.limit = 64 * kKiB});
    PinnedBlock block = pool.allocate(20'000);
    { const PinnedBlock cached = pool.allocate(4096); }
    const PinnedStatistics before = pool.statistics();
    try {
        pool.allocate(40'000);
        FAIL() << "there is no room for it";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(
            std::string(error.what()),
            "out of memory: 40.0 kB (65.5 kB rounded up) of page-locked host memory for " + properties().name +
                " do not fit into the limit of 65.5 kB, with 32.8 kB in use; use fewer or smaller staging buffers, "
                "free them earlier, raise the limit");
        const MemoryReport& report = error.report();
        EXPECT_EQ(report.requested, 40'000u);
        EXPECT_EQ(report.rounded, 65'536u);
        EXPECT_EQ(report.device_total, report.device_free + report.others() + report.statistics.reserved);
        EXPECT_EQ(report.statistics.reserved, report.statistics.allocated + report.cached + report.pending);
    }
    EXPECT_EQ(pool.statistics(), before);
    block.reset();
    EXPECT_TRUE(pool.allocate(40'000));
}

TEST_P(PinnedPoolTest, SizesBeyondAllClassesAreRefused) {
    PinnedPool pool(driver());
    for (const std::size_t bytes : {std::size_t{1} << 60, ~std::size_t{0}})
        EXPECT_THROW(pool.allocate(bytes), OutOfMemory);
}

/// Some of everything, with blocks of three sizes used on two streams.
void use_all_of(PinnedPool& pool) {
    PinnedBlock kept = pool.allocate(20'000);
    for (const std::size_t bytes : {4096u, 8192u, 4096u, 30'000u}) {
        PinnedBlock a = pool.allocate(bytes), b = pool.allocate(bytes);
        a.record_use(0);
        b.record_use(0);
        b.record_use(1);
    }
    kept.record_use(1);
    kept = pool.allocate(60'000);
    pool.trim();
}

TEST_P(PinnedPoolTest, AFailureAtAnyPositionLeavesItUsable) {
    for (int position = 0;; ++position) {
        PinnedPool pool(driver(), {.limit = 256 * kKiB});
        log().fail(DriverCall::any, position);
        try {
            use_all_of(pool);
        } catch (const Error&) {
        }
        if (!log().stop_failing()) break;
        EXPECT_EQ(pool.statistics().live, 0u);
        EXPECT_NO_THROW(use_all_of(pool));
        ASSERT_LT(position, 1000);
    }
}

TEST_P(PinnedPoolTest, WhatIsCachedIsGivenBackBeforeADriverWithoutMoreIsTheEnd) {
    PinnedPool pool(driver());
    { const PinnedBlock cached = pool.allocate(100'000); }
    log().fail(DriverCall::pinned, 0);
    EXPECT_TRUE(pool.allocate(4096));
    EXPECT_EQ(pool.statistics().held(), 4096u);
    log().fail(DriverCall::pinned, 0, true);
    EXPECT_TRUE(pool.allocate(4096));
    EXPECT_THROW(pool.allocate(8192), OutOfMemory);
    EXPECT_EQ(pool.statistics().held(), 0u);
    log().stop_failing();
    EXPECT_TRUE(pool.allocate(8192));
}

TEST_P(PinnedPoolTest, SeveralThreadsShareIt) {
    PinnedPool pool(driver(), {.limit = 4 << 20});
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&pool, thread, touchable = properties().touchable] {
            for (std::size_t i = 0; i < 300; ++i) {
                PinnedBlock a = pool.allocate(1 + i * 37 % 20'000), b = pool.allocate(1 + i * 91 % 20'000);
                EXPECT_NE(a.data(), b.data());
                if (touchable) std::memset(a.data(), static_cast<int>(thread), a.bytes());
                a.record_use(thread);
                if (i % 5 == 0) b.record_use((thread + 1) % 4);
                if (touchable) {
                    EXPECT_EQ(a.data()[a.bytes() - 1], std::byte(thread));
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.statistics().live, 0u);
    pool.trim();
    EXPECT_EQ(pool.statistics().held(), 0u);
    EXPECT_TRUE(log().events.empty());
}

INSTANTIATE_TEST_SUITE_P(Drivers, PinnedPoolTest, all_drivers(), driver_name);

}  // namespace pinned_pool_test
}  // namespace headroom::memory::test
