#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/bench/traces/program.hpp>
#include <headroom/bench/traces/replay.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::traces {
namespace replay_test {

Trace recorded(const std::string& name) {
    return read_trace(test::source_path("bench/traces/recorded/" + name + ".trace.gz"));
}

class RecordedTrace : public testing::TestWithParam<const char*> {};

TEST_P(RecordedTrace, ReservesAtMostFivePercentMoreThanIsLive) {
    const ReplayResult result = replay(recorded(GetParam()));
    EXPECT_LE(result.whole.ratio(), 1.05);
    EXPECT_LE(result.steady.ratio(), 1.05);
}

TEST_P(RecordedTrace, TakesAndMovesNoPageInItsSteadyState) {
    const ReplayResult result = replay(recorded(GetParam()));
    EXPECT_EQ(result.in_steady.create, 0u);
    EXPECT_EQ(result.in_steady.reserve, 0u);
    EXPECT_EQ(result.in_steady.map, 0u);
    EXPECT_EQ(result.in_steady.unmap, 0u);
    EXPECT_EQ(result.in_steady.synchronize, 0u);
}

TEST_P(RecordedTrace, RunsWithinTwoPercentMoreThanIsLive) {
    const Trace trace = recorded(GetParam());
    const std::size_t limit = peak_live(trace) / 100 * 102;
    EXPECT_LE(replay(trace, {.limit = limit}).whole.reserved, limit);
}

TEST_P(RecordedTrace, HasTheSameFiguresHoweverFarTheDeviceIsBehind) {
    const Trace trace = recorded(GetParam());
    const ReplayResult at_once = replay(trace, {.event_latency = 0});
    const ReplayResult late = replay(trace, {.event_latency = 1'000'000'000});
    EXPECT_EQ(at_once.whole.reserved, late.whole.reserved);
    EXPECT_EQ(at_once.in_steady.create, late.in_steady.create);
    EXPECT_EQ(at_once.in_steady.map, late.in_steady.map);
}

TEST_P(RecordedTrace, IsCountedAsItsOperationsSay) {
    const Trace trace = recorded(GetParam());
    const ReplayResult result = replay(trace);
    EXPECT_EQ(result.operations, trace.operations.size());
    EXPECT_EQ(result.whole.live, peak_live(trace));
    Trace rounded = trace;
    for (Operation& operation : rounded.operations) {
        if (operation.kind == Operation::Kind::allocate) operation.bytes = (operation.bytes + 511) / 512 * 512;
    }
    EXPECT_EQ(result.whole.rounded, peak_live(rounded));
    EXPECT_EQ(result.steady.rounded, peak_live(rounded, steps(trace) / 2 + 1));
}

INSTANTIATE_TEST_SUITE_P(All, RecordedTrace,
                         testing::Values("fixed", "variable", "recompute", "offload", "experts", "four_streams",
                                         "side_stream"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Replay, ASideStreamTakesItsTurnWithoutTheHostWaiting) {
    const ReplayResult result = replay(recorded("side_stream"));
    EXPECT_LE(result.whole.ratio(), 1.10);
    EXPECT_EQ(result.warm_up.synchronize + result.in_steady.synchronize, 0u);
}

TEST(Replay, CountsWhatTheDriverWasAskedForAndNotTheProgramsOwnWaits) {
    Program program("demo", "");
    const Piece weights = program.take(3 << 20, 0, "mlp");
    program.step();
    program.wait(1, 0);
    program.step();
    const Piece more = program.take(3 << 20, 0, "mlp");
    const ReplayResult result = replay(program.trace());
    EXPECT_EQ(result.steady_steps, 1u);
    EXPECT_EQ(result.warm_up.create, 2u);
    EXPECT_EQ(result.warm_up.wait, 0u);
    EXPECT_EQ(result.in_steady.create, 1u);
    EXPECT_EQ(result.in_steady.map, 1u);
    EXPECT_EQ(result.whole.reserved, std::size_t{6} << 20);
}

}  // namespace replay_test
}  // namespace headroom::traces
