#include <gtest/gtest.h>

#include <headroom/bench/traces/program.hpp>
#include <headroom/bench/traces/replay.hpp>
#include <headroom/bench/traces/stream_times.hpp>

namespace headroom::traces {
namespace stream_times_test {

TEST(StreamTimes, StreamsRunSideBySideUntilOneWaits) {
    StreamTimes times;
    times.work(0, 5);
    times.work(1, 3);
    EXPECT_EQ(times.end(), 5);
    times.wait(1, times.now(0));
    times.work(1, 2);
    EXPECT_EQ(times.now(0), 5);
    EXPECT_EQ(times.end(), 7);
}

TEST(StreamTimes, NothingBeginsBeforeTheHostGoesOn) {
    StreamTimes times;
    times.work(0, 5);
    times.wait_on_host(4);
    times.work(1, 1);
    times.work(0, 1);
    EXPECT_EQ(times.now(1), 5);
    EXPECT_EQ(times.now(0), 6);
}

TEST(Replay, MemoryThatChangesItsStreamCostsTheOneTheOthersTime) {
    constexpr std::size_t kBytes = 64 << 20;
    Program program("demo", "");
    { const Piece first = program.take(kBytes, 0, "a"); }
    { const Piece second = program.take(kBytes, 1, "b"); }
    const ReplayResult one_after_the_other = replay(program.trace());
    EXPECT_EQ(one_after_the_other.whole.reserved, kBytes);
    EXPECT_EQ(one_after_the_other.warm_up.wait + one_after_the_other.in_steady.wait, 1u);
    EXPECT_EQ(one_after_the_other.stretch, 2);

    Program own("demo", "");
    const Piece first = own.take(kBytes, 0, "a");
    const Piece second = own.take(kBytes, 1, "b");
    EXPECT_EQ(replay(own.trace()).stretch, 1);
}

}  // namespace stream_times_test
}  // namespace headroom::traces
