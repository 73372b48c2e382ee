#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <headroom/data/prefetcher.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace prefetcher_test {

using test::throws;
using namespace std::chrono_literals;

TEST(Prefetcher, ReturnsTasksInOrderWhicheverIsFirst) {
    for (const int workers : {1, 2, 5})
        for (const int slots : {2, 3, 8}) {
            std::vector<int64_t> ring(static_cast<std::size_t>(slots));
            Prefetcher prefetcher({.workers = workers, .slots = slots, .first_task = 17}, [&](int64_t task, int slot) {
                if (task % 3 == 0) std::this_thread::sleep_for(100us);
                ring[static_cast<std::size_t>(slot)] = task;
            });
            for (int64_t task = 17; task < 117; ++task)
                ASSERT_EQ(ring[static_cast<std::size_t>(prefetcher.next())], task) << workers << ' ' << slots;
        }
}

TEST(Prefetcher, NeverRunsFurtherAheadThanItsSlots) {
    std::atomic<int64_t> begun{0};
    constexpr int slots = 4;
    Prefetcher prefetcher({.workers = 3, .slots = slots}, [&](int64_t, int) { ++begun; });
    for (int64_t task = 0; task < 200; ++task) {
        prefetcher.next();
        if (task % 50 == 0) std::this_thread::sleep_for(5ms);  // the workers get as far as they can
        // The consumer holds `task`, so that three more may have begun after it.
        EXPECT_LE(begun.load(), task + slots);
    }
}

TEST(Prefetcher, NeverTouchesTheSlotThatTheConsumerHolds) {
    std::vector<int64_t> ring(2);
    Prefetcher prefetcher({.workers = 2, .slots = 2}, [&](int64_t task, int slot) { ring[std::size_t(slot)] = task; });
    for (int64_t task = 0; task < 50; ++task) {
        const auto slot = static_cast<std::size_t>(prefetcher.next());
        std::this_thread::sleep_for(50us);
        ASSERT_EQ(ring[slot], task);
    }
}

TEST(Prefetcher, RethrowsAtTheTaskThatThrew) {
    std::vector<int64_t> ring(4);
    Prefetcher prefetcher({.workers = 3, .slots = 4}, [&](int64_t task, int slot) {
        if (task == 5) throw std::runtime_error("task 5 broke");
        ring[static_cast<std::size_t>(slot)] = task;
    });
    for (int64_t task = 0; task < 5; ++task) ASSERT_EQ(ring[static_cast<std::size_t>(prefetcher.next())], task);
    EXPECT_THAT([&] { prefetcher.next(); }, throws<std::runtime_error>("task 5 broke"));
}

TEST(Prefetcher, EndsAtTheLastTask) {
    std::atomic<int64_t> done{0};
    Prefetcher prefetcher({.workers = 2, .slots = 8, .first_task = 2, .end_task = 5}, [&](int64_t, int) { ++done; });
    for (int i = 0; i < 3; ++i) prefetcher.next();
    EXPECT_EQ(done.load(), 3);
    EXPECT_THAT([&] { prefetcher.next(); }, throws<Error>("no task 5"));
}

TEST(Prefetcher, IsDestroyedAtAnyTimeWithoutWaitingForUnbegunTasks) {
    for (int taken = 0; taken < 12; ++taken)
        for (const int workers : {1, 4}) {
            std::atomic<int64_t> begun{0};
            {
                Prefetcher prefetcher({.workers = workers, .slots = 6}, [&](int64_t, int) {
                    ++begun;
                    std::this_thread::sleep_for(200us);
                });
                for (int i = 0; i < taken; ++i) prefetcher.next();
            }
            EXPECT_LE(begun.load(), taken + 6);
        }
}

TEST(Prefetcher, IsDestroyedWithAnErrorThatNobodyAskedFor) {
    for (int i = 0; i < 20; ++i)
        Prefetcher prefetcher({.workers = 2, .slots = 3}, [](int64_t, int) { throw std::runtime_error("unseen"); });
}

TEST(Prefetcher, RefusesImpossibleNumbers) {
    const auto nothing = [](int64_t, int) {};
    EXPECT_THAT([&] { Prefetcher({.workers = 0, .slots = 2}, nothing); }, throws<Error>("0 and 2"));
    EXPECT_THAT([&] { Prefetcher({.workers = 1, .slots = 1}, nothing); }, throws<Error>("1 and 1"));
}

}  // namespace prefetcher_test
}  // namespace headroom::data
