// When ranks have ended or hang, by a clock of the test's own.
#include <headroom/dist/internal/watch_verdict.hpp>

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::dist {
namespace watch_verdict_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kPatience = 600;

class Watched : public testing::Test {
  protected:
    /// Each rank says this every second.
    void seconds(int count) {
        for (int i = 0; i < count; ++i) {
            ranks_.pass(1);
            for (int r = 0; r < 3; ++r) {
                Said& said = says_[r];
                if (!said.speaks) continue;
                said.steps += said.moves ? 1 : 0;
                ranks_.heard(r, {.steps = said.steps, .waits = said.waits, .exchanges = said.exchanges});
            }
        }
    }

    struct Said {
        bool moves = false, waits = false, speaks = true;
        std::uint64_t steps = 0, exchanges = 0;
    };
    Said says_[3];
    WatchedRanks ranks_{3, kPatience};
};

TEST_F(Watched, GoOnWhileTheyMoveOrNobodyWaits) {
    seconds(5000);  // all work in code that counts nothing
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    says_[0].waits = says_[1].waits = true;
    says_[2].moves = true;  // a save, a validation, a long step: as long as it takes
    seconds(5000);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
}

TEST_F(Watched, EndForOneThatDoesNotMove) {
    says_[0].waits = true;
    says_[1].moves = true;  // in a step of its own
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(2);
    EXPECT_EQ(ranks_.verdict(),
              "rank 2 has made no progress for 600 s while others wait; --rank-timeout sets how long they do");
    says_[2].moves = true;
    seconds(1);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
}

TEST_F(Watched, HaveWaitedThemselvesForSoLong) {
    seconds(700);  // work without a step, as long for all
    says_[0].waits = true;
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(2);
    EXPECT_THAT(ranks_.verdict(), HasSubstr("ranks 1, 2 have made no progress"));
}

TEST_F(Watched, EndWhenAllWaitForEachOther) {
    for (Said& said : says_) said.waits = true;
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(2);
    EXPECT_EQ(
        ranks_.verdict(),
        "all ranks have waited for each other for 600 s, exchanges begun: 0 by each; --rank-timeout sets how long "
        "they do");
    says_[0].exchanges = says_[2].exchanges = 9;
    says_[1].exchanges = 10;
    seconds(601);
    EXPECT_THAT(ranks_.verdict(), HasSubstr(" for 600 s, exchanges begun: 10 by rank 1, 9 by ranks 0, 2; --rank"));
}

TEST_F(Watched, DoNotWaitWhereTheirWaitsAreShort) {
    for (int i = 0; i < 100; ++i) {  // steps of a minute, of which most is waiting
        for (Said& said : says_) said = {.moves = false, .waits = true, .steps = said.steps + 1};
        seconds(60);
        EXPECT_THAT(ranks_.verdict(), IsEmpty());
    }
}

TEST_F(Watched, EndForOneOfWhichNothingIsHeardThoughItWaitedLast) {
    for (Said& said : says_) said.waits = true;
    seconds(1);
    says_[1].speaks = false;
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(2);
    EXPECT_THAT(ranks_.verdict(), HasSubstr("rank 1 has made no progress for 600 s"));
}

TEST_F(Watched, EndSoonForOneThatHasEnded) {
    for (Said& said : says_) said.moves = true;
    seconds(100);  // in which it was there
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    says_[1].speaks = false;
    ranks_.lost(1);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(1);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());  // its own error comes first
    seconds(2);
    EXPECT_EQ(ranks_.verdict(), "rank 1 has ended without finishing the job, which ends all ranks");
    ranks_.lost(2);
    seconds(2);
    EXPECT_EQ(ranks_.verdict(), "ranks 1, 2 have ended without finishing the job, which ends all ranks");
}

TEST_F(Watched, NeedNotWaitForOneThatHasFinished) {
    for (Said& said : says_) said.waits = true;
    seconds(500);
    says_[1].speaks = false;
    ranks_.finished(1);
    ranks_.lost(1);  // it closes its connection
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    says_[0].moves = true;
    seconds(5000);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    says_[0].moves = false;
    seconds(599);
    EXPECT_THAT(ranks_.verdict(), IsEmpty());
    seconds(2);
    EXPECT_EQ(ranks_.verdict(), "rank 1 has finished, and the others have waited for 600 s");
}

TEST(WatchedTime, LeavesOutWhatAProcessWasSuspendedFor) {
    using namespace std::chrono_literals;
    const std::chrono::steady_clock::time_point begin{};
    WatchedTime time(1);
    EXPECT_EQ(time.pass(begin + 5s), 0);
    EXPECT_EQ(time.pass(begin + 6s), 1);
    EXPECT_EQ(time.pass(begin + 7500ms), 1.5);
    EXPECT_EQ(time.pass(begin + 24h), 2);
    EXPECT_EQ(time.pass(begin + 24h + 1s), 1);
}

}  // namespace watch_verdict_test
}  // namespace headroom::dist
