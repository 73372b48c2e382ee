#include <headroom/kernels/parallel.hpp>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace headroom::kernels {
namespace parallel_test {

/// How often each index was called.
std::vector<int> calls(const CpuStream& stream, std::int64_t count) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    parallel_for(stream, count, kParallelThreshold, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
    return {seen.begin(), seen.end()};
}

TEST(ParallelFor, CallsEachIndexOnce) {
    for (const int threads : {1, 2, 3, 16}) {
        StreamState state;
        const CpuStream stream{.threads = threads, .state = &state};
        for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
            for (int repeat = 0; repeat < 200; ++repeat) {
                ASSERT_EQ(calls(stream, count), std::vector<int>(static_cast<std::size_t>(count), 1))
                    << threads << " threads";
            }
        }
    }
}

TEST(ParallelFor, TakesMoreThreadsThanThereAreShares) {
    StreamState state;
    EXPECT_EQ(calls({.threads = 1 << 20, .state = &state}, 3), std::vector<int>(3, 1));
}

TEST(ParallelFor, UsesAsManyThreadsAsTheStreamHas) {
    StreamState state;
    std::atomic<int> inside = 0;
    parallel_for(CpuStream{.threads = 3, .state = &state}, 3, kParallelThreshold, [&](std::int64_t) {
        ++inside;
        while (inside < 3) std::this_thread::yield();  // for ever, if a thread did two
    });
    EXPECT_EQ(inside, 3);
}

TEST(ParallelFor, KeepsSmallWorkAndThatOfAStreamWithoutStateOnTheCallingThread) {
    StreamState state;
    std::set<std::thread::id> ids;
    const auto note = [&](std::int64_t) { ids.insert(std::this_thread::get_id()); };
    parallel_for(CpuStream{.threads = 4, .state = &state}, 100, kParallelThreshold - 1, note);
    parallel_for(CpuStream{.threads = 4}, 100, kParallelThreshold, note);
    EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
}

TEST(ParallelFor, DoesWorkInsideOfWorkOnTheThreadThatAsks) {
    StreamState state;
    const CpuStream stream{.threads = 3, .state = &state};
    std::atomic<int> sum = 0;
    parallel_for(stream, 3, kParallelThreshold, [&](std::int64_t) {
        const auto self = std::this_thread::get_id();
        parallel_for(stream, 5, kParallelThreshold, [&](std::int64_t) { sum += std::this_thread::get_id() == self; });
    });
    EXPECT_EQ(sum, 15);
}

/// A program beside this one may keep the other threads from running. A child has none of them at all: fork takes the
/// calling thread only.
TEST(ParallelForDeathTest, DoesNotWaitForThreadsThatDoNotRun) {
    StreamState state;
    const CpuStream stream{.threads = 4, .state = &state};
    calls(stream, 100);
    EXPECT_EXIT(
        {
            for (int i = 0; i < 100; ++i) {
                if (calls(stream, 100) != std::vector<int>(100, 1)) std::_Exit(1);
            }
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace parallel_test
}  // namespace headroom::kernels
