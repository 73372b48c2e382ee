// The watch over ranks, which are threads here: what ends the process, and with which line.
#include <headroom/dist/internal/watch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/dist/internal/joining.hpp>
#include <headroom/dist/nccl.hpp>
#include <headroom/dist/threads.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {
namespace watch_test {

using testing::ExitedWithCode;
using testing::HasSubstr;

constexpr const char* kHere = "127.0.0.1";
/// Far longer than a test takes.
constexpr double kLong = 1000;

/// Until a watch ends the process. Where none does, the test fails by it, and soon.
[[noreturn]] void hang() {
    std::this_thread::sleep_for(std::chrono::minutes(2));
    std::abort();
}

/// Waits for others, who never come.
[[noreturn]] void wait_without_end() {
    const memory::WaitScope waits;
    hang();
}

void watched(int ranks, double patience, const std::function<void(int rank, Watch& watch)>& work) {
    run_ranks(ranks, [&](const std::shared_ptr<Group>& hosts) {
        std::string why_not;
        const std::shared_ptr<Watch> watch = Watch::begin(*hosts, kHere, patience, why_not, kLong);
        if (!why_not.empty()) throw Error(why_not);
        work(hosts->rank(), *watch);
    });
}

/// Seconds, some times as many as ranks take here to meet and to part: so few that they pass, and enough for those that
/// do not hang.
double short_patience() {
    const auto begin = std::chrono::steady_clock::now();
    watched(3, kLong, [](int, Watch&) {});
    return std::max(1.0, 10 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

class WatchDeath : public testing::Test {
  protected:
    WatchDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(Watch, LetsRanksLeaveInAnyOrder) {
    for (const int last : {0, 1, 2}) {
        watched(3, kLong, [&](int rank, Watch&) {
            if (rank == last) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        });
    }
}

TEST(Watch, EndsNothingWhileARankMoves) {
    const double patience = short_patience();
    watched(2, patience, [&](int rank, Watch&) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(2 * patience);
        while (rank == 1 && std::chrono::steady_clock::now() < end) {
            memory::step_forward();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const memory::WaitScope waits;
        std::this_thread::sleep_until(end);
    });
}

TEST_F(WatchDeath, NamesARankThatHangs) {
    const auto hangs = [](int hanging) {
        watched(3, short_patience(), [&](int rank, Watch&) { rank == hanging ? hang() : wait_without_end(); });
    };
    EXPECT_EXIT(hangs(2), ExitedWithCode(1), "^rank 2 has made no progress for [0-9.]+ s while others wait");
    EXPECT_EXIT(hangs(0), ExitedWithCode(1), "^rank 0 has made no progress for [0-9.]+ s while others wait");
    EXPECT_EXIT(hangs(-1), ExitedWithCode(1), "^all ranks have waited for each other for [0-9.]+ s");
}

/// Of which the others learn nothing.
void end_with_an_error(const std::shared_ptr<Group>& hosts) {
    std::string why_not;
    try {
        const std::shared_ptr<Watch> watch = Watch::begin(*hosts, kHere, kLong, why_not, kLong);
        throw Error("it fails");
    } catch (const Error&) {
        hang();
    }
}

TEST_F(WatchDeath, NamesARankThatHasEnded) {
    for (const int victim : {0, 1}) {
        EXPECT_EXIT(run_ranks(2,
                              [&](const std::shared_ptr<Group>& hosts) {
                                  if (hosts->rank() == victim) end_with_an_error(hosts);
                                  std::string why_not;
                                  const auto watch = Watch::begin(*hosts, kHere, kLong, why_not, kLong);
                                  wait_without_end();
                              }),
                    ExitedWithCode(1), fmt::format("^rank {} has ended without finishing the job", victim));
    }
}

/// NCCL, as far as a watch asks for it.
class FailingGroup final : public NcclGroup {
  public:
    explicit FailingGroup(std::string why) : NcclGroup(0, 1), why_(std::move(why)) {}
    std::string failure() override { return ++asked_, why_; }
    /// Until a watch has asked it so many times more.
    void wait_until_asked(int times) const {
        for (const int end = asked_ + times; asked_ < end;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void abort() override { dprintf(told_, "aborted\n"); }

    std::string why_;
    std::atomic<int> asked_ = 0;
    const int told_ = dup(STDERR_FILENO);  // a watch that ends the process lets nobody else speak there

  private:
    void do_all_to_all(const std::byte*, std::span<const Extent>, std::byte*, std::span<const Extent>) override {}
};

TEST_F(WatchDeath, LooksAfterWhatElseIsWaitedFor) {
    const auto hang_with = [](const char* failure) {
        return [failure](int rank, Watch& watch) {
            const auto group = watch.look_after(std::make_shared<FailingGroup>(rank == 1 ? failure : ""));
            rank == 1 ? hang() : wait_without_end();
        };
    };
    EXPECT_EXIT(watched(2, kLong, hang_with("rank 1: NCCL has failed")), ExitedWithCode(1),
                "^rank 1: NCCL has failed\naborted\n");
    EXPECT_EXIT(watched(2, short_patience(), hang_with("")), ExitedWithCode(1),
                "^rank 1 has made no progress [^\n]*\naborted\n");
}

TEST_F(WatchDeath, LooksAfterNcclWhereRanksDoNotReachEachOther) {
    const auto fail = [](const std::shared_ptr<Group>& hosts) {
        std::string why_not;
        const auto watch = Watch::begin(*hosts, "nowhere.invalid", kLong, why_not, 0.2);
        const auto group = watch->look_after(std::make_shared<FailingGroup>("NCCL has failed"));
        hang();
    };
    EXPECT_EXIT(run_ranks(2, fail), ExitedWithCode(1), "NCCL has failed\naborted\n");
}

TEST(Watch, LooksAfterAGroupAsLongAsSomebodyHasIt) {
    watched(2, short_patience(), [](int, Watch& watch) {
        const auto state = std::make_shared<FailingGroup>(""), other = std::make_shared<FailingGroup>("");
        const auto group = watch.look_after(other);
        watch.look_after(state);
        EXPECT_EQ(state.use_count(), 1);
        const int asked = state->asked_;
        other->wait_until_asked(3);
        EXPECT_EQ(state->asked_, asked);
    });
}

/// It lets go of what has failed soon, and says why in its own words.
TEST(Watch, LeavesARankTimeToSayWhyNcclHasFailed) {
    watched(2, short_patience(), [](int, Watch& watch) {
        const auto state = std::make_shared<FailingGroup>("NCCL has failed");
        const auto group = watch.look_after(state);
        state->wait_until_asked(2);
    });
}

TEST(Watch, SaysWhyARankIsNotReached) {
    run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
        std::string why_not;
        Watch::begin(*hosts, "nowhere.invalid", kLong, why_not, 0.2);
        EXPECT_THAT(why_not, HasSubstr("rank 1"));
    });
}

/// Rank 1 is played: it reads where rank 0 is, and does not come.
TEST(Watch, NamesAddressesThatOtherMachinesReach) {
    run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
        std::string why_not;
        if (hosts->rank() == 0) {
            Watch::begin(*hosts, "", kLong, why_not, 0.1);
            EXPECT_THAT(why_not, HasSubstr("rank 1 of 2 has not joined"));
            return;
        }
        const std::string told = all_gather(*hosts, std::string())[0];
        EXPECT_EQ(told.find(" 127."), std::string::npos) << told;
        EXPECT_EQ(told.find("[::1]"), std::string::npos) << told;
        all_gather(*hosts, std::string());
    });
}

/// Rank 0 is played: it names ten addresses of its own, of which the first one leads nowhere, and waits for less than
/// all of the time.
TEST(Watch, LeavesTimeForEachAddressOfTheFirstRank) {
    run_ranks(2, [](const std::shared_ptr<Group>& hosts) {
        if (hosts->rank() == 1) {
            std::string why_not;
            Watch::begin(*hosts, "", kLong, why_not, 10);
            EXPECT_EQ(why_not, "");
            return;
        }
        const Listener listener("127.0.0.1:0");
        std::string addresses = fmt::format("127.0.0.1:{}", Listener("127.0.0.1:0").port());
        for (int i = 1; i < 10; ++i) addresses += fmt::format(" 127.0.0.1:{}", listener.port());
        all_gather(*hosts, fmt::format("7 {}", addresses));
        const std::vector<Socket> ranks = receive_ranks(listener, {.ranks = 2, .job = 7}, 9);
        all_gather(*hosts, std::string());
        ranks[1].send_frame("g", within(kLong));
    });
}

TEST_F(WatchDeath, BoundsWhatJoiningTakes) {
    EXPECT_EXIT(
        {
            const JoinDeadline deadline(1, "2 ranks", 0.1);
            hang();
        },
        ExitedWithCode(1), "^rank 1: not all of 2 ranks joined within 0.1 s; --join-timeout");
    const JoinDeadline deadline(1, "2 ranks", kLong);  // which passes without a wait
}

/// Another one could say the same, and leaves the first one two seconds to do so.
TEST_F(WatchDeath, LetsTheFirstRankSayThatNotAllHaveCome) {
    EXPECT_EXIT(
        {
            const JoinDeadline other(10, "11 ranks", 0.1);
            const JoinDeadline first(0, "11 ranks", 0.1);
            hang();
        },
        ExitedWithCode(1), "^rank 0: not all of 11 ranks");
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EXIT(
        {
            const JoinDeadline other(10, "11 ranks", 0.1);
            hang();
        },
        ExitedWithCode(1), "^rank 10: not all of 11 ranks");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace watch_test
}  // namespace headroom::dist
