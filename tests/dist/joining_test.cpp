// Ranks that find each other, and what else connects to the port of the first one.
#include <headroom/dist/internal/joining.hpp>

#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::dist {
namespace joining_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Seconds, for a test that hangs.
constexpr double kLong = 600;

/// Rank 0's port, and connections to it that are as they are told to be.
class Joining : public testing::Test {
  protected:
    Socket connection(const std::string& says = "") {
        Socket socket = Socket::connect(address_, within(kLong));
        socket.send(std::as_bytes(std::span(says)), within(kLong));
        return socket;
    }
    std::future<Socket> joins(const Hello& own) {
        return std::async(std::launch::async, [this, own] { return connect_to_first(address_, own, kLong); });
    }
    std::string refused(const Hello& own) {
        try {
            connect_to_first(address_, own, kLong);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    /// An address of this machine whose ports no other test uses.
    std::string host_ = fmt::format("127.{}.{}.1", getpid() / 256 % 256, getpid() % 256);
    Listener listener_{host_ + ":0"};
    std::string address_ = fmt::format("{}:{}", host_, listener_.port());
};

TEST_F(Joining, EachRankHasAConnectionToTheFirst) {
    std::vector<std::future<Socket>> others;
    for (const int rank : {3, 1, 2}) others.push_back(joins({.rank = rank, .ranks = 4, .job = 7}));
    const std::vector<Socket> ranks = receive_ranks(listener_, {.ranks = 4, .job = 7}, kLong);
    ASSERT_EQ(ranks.size(), 4u);
    EXPECT_FALSE(ranks[0].is_open());
    for (std::size_t r = 1; r < 4; ++r) ranks[r].send_frame(fmt::format("to {}", r), within(kLong));
    EXPECT_EQ(others[0].get().receive_frame(8, within(kLong)), "to 3");
    EXPECT_EQ(others[1].get().receive_frame(8, within(kLong)), "to 1");
    EXPECT_EQ(others[2].get().receive_frame(8, within(kLong)), "to 2");
}

TEST_F(Joining, StrangersKeepNobodyWaiting) {
    std::string other_version = Hello{.rank = 1, .ranks = 2}.bytes();
    other_version[8] ^= 1;
    std::string other_program = Hello{.rank = 1, .ranks = 2}.bytes();
    other_program[0] ^= 1;
    std::vector<Socket> strangers;
    strangers.push_back(connection());        // says nothing, and stays
    strangers.push_back(connection("head"));  // goes on at some time
    strangers.push_back(connection("GET / HTTP/1.1\r\nHost: first\r\n\r\n"));
    strangers.push_back(connection(std::string(100'000, '\xff')));
    connection();  // has gone
    connection("headroom");
    strangers.push_back(connection(other_version));
    strangers.push_back(connection(other_program));
    for (const Hello& wrong : {Hello{.rank = 1, .ranks = 3},
                               {.rank = 2, .ranks = 2},
                               {.rank = 0, .ranks = 2},
                               {.rank = -1, .ranks = 2},
                               {.rank = 1, .ranks = 2, .job = 1}})
        strangers.push_back(connection(wrong.bytes()));
    std::future<Socket> second = joins({.rank = 1, .ranks = 2});
    const std::vector<Socket> ranks = receive_ranks(listener_, {.ranks = 2}, kLong);
    ranks[1].send_frame("here", within(kLong));
    EXPECT_EQ(second.get().receive_frame(8, within(kLong)), "here");
}

TEST_F(Joining, AsManyStrangersAsComeKeepNobodyWaiting) {
    std::future<std::vector<Socket>> first =
        std::async(std::launch::async, [&] { return receive_ranks(listener_, {.ranks = 2}, kLong); });
    std::vector<Socket> strangers;
    for (std::size_t i = 0; i < kMostStrangers + 50; ++i) strangers.push_back(connection("head"));
    EXPECT_THROW(strangers[0].receive_frame(8, within(kLong)), PeerGone);  // the oldest one has been dropped
    const Socket second = connect_to_first(address_, {.rank = 1, .ranks = 2}, kLong);
    first.get()[1].send_frame("here", within(kLong));
    EXPECT_EQ(second.receive_frame(8, within(kLong)), "here");
}

TEST_F(Joining, OtherJobsAreRefusedInALine) {
    std::future<std::vector<Socket>> first =
        std::async(std::launch::async, [&] { return receive_ranks(listener_, {.ranks = 3, .job = 7}, kLong); });
    EXPECT_EQ(refused({.rank = 1, .ranks = 2, .job = 7}), "rank 1 can't join: the job of rank 0 has 3 ranks, not 2");
    EXPECT_EQ(refused({.rank = 1, .ranks = 3, .job = 8}), "rank 1 can't join: rank 0 belongs to another job");
    EXPECT_EQ(refused({.rank = 3, .ranks = 3, .job = 7}), "rank 3 can't join: no rank 3 can join");
    const Socket second = connection(Hello{.rank = 1, .ranks = 3, .job = 7}.bytes());
    EXPECT_EQ(second.receive_frame(64, within(kLong)), "headroom:");
    EXPECT_EQ(refused({.rank = 1, .ranks = 3, .job = 7}), "rank 1 can't join: another process has joined as rank 1");
    connect_to_first(address_, {.rank = 2, .ranks = 3, .job = 7}, kLong);
    first.get();
}

TEST_F(Joining, RanksThatDoNotComeAreNamedToAllThatHave) {
    const Socket second = connection(Hello{.rank = 1, .ranks = 4}.bytes());
    EXPECT_THAT(([&] { receive_ranks(listener_, {.ranks = 4}, 0); }),
                ThrowsMessage<TimedOut>(HasSubstr("ranks 2, 3 of 4 have not joined within 0 s")));
    EXPECT_EQ(second.receive_frame(4096, within(kLong)), "headroom:");
    EXPECT_EQ(second.receive_frame(4096, within(kLong)), "headroom:ranks 2, 3 of 4 have not joined within 0 s");
}

TEST_F(Joining, WhoConnectsAgainAndAgainDoesNotPutOffTheEnd) {
    for (std::size_t i = 0; i < 5 * kMostStrangers; ++i) connection();
    const Socket second = connection(Hello{.rank = 1, .ranks = 2}.bytes());
    EXPECT_THROW(receive_ranks(listener_, {.ranks = 2}, 0), TimedOut);
}

TEST_F(Joining, ARankThatEndsMeanwhileIsNamed) {
    std::future<std::vector<Socket>> first =
        std::async(std::launch::async, [&] { return receive_ranks(listener_, {.ranks = 4}, kLong); });
    const Socket second = connection(Hello{.rank = 1, .ranks = 4}.bytes());
    EXPECT_EQ(second.receive_frame(64, within(kLong)), "headroom:");
    EXPECT_EQ(connection(Hello{.rank = 2, .ranks = 4}.bytes()).receive_frame(64, within(kLong)), "headroom:");
    EXPECT_THAT([&] { first.get(); }, ThrowsMessage<PeerGone>("rank 2 ended while the ranks were joining"));
    EXPECT_EQ(second.receive_frame(64, within(kLong)), "headroom:rank 2 ended while the ranks were joining");
}

TEST_F(Joining, AFirstRankThatIsNotThereIsNotWaitedForForEver) {
    const std::string nobody = address_;
    listener_ = Listener(host_ + ":0");
    EXPECT_THAT(([&] { connect_to_first(nobody, {.rank = 1, .ranks = 2}, 0); }),
                ThrowsMessage<TimedOut>(
                    testing::StartsWith("rank 1 can't join within 0 s: no process accepts connections at " + nobody)));
}

/// What listens there before rank 0 does may end, and rank 0 may end itself.
TEST_F(Joining, AConnectionThatEndsEarlyIsTriedAgain) {
    std::future<Socket> second = joins({.rank = 1, .ranks = 2});
    listener_.accept(within(kLong));
    receive_ranks(listener_, {.ranks = 2}, kLong);
    second.get();
}

/// The time of rank 0, which begins and ends later, decides: it still tells the others what has become of them.
TEST_F(Joining, ARankThatHasJoinedWaitsForTheWordOfTheFirst) {
    constexpr double kPatience = 3;  // within which it joins
    std::future<Socket> second =
        std::async(std::launch::async, [&] { return connect_to_first(address_, {.rank = 1, .ranks = 2}, kPatience); });
    const Socket first = *listener_.accept(within(kLong));
    first.send_frame("headroom:", within(kLong));
    EXPECT_EQ(second.wait_for(std::chrono::duration<double>(1.1 * kPatience)), std::future_status::timeout);
    first.send_frame("headroom:rank 2 of 3 has not joined within 1 s", within(kLong));
    EXPECT_THAT([&] { second.get(); },
                ThrowsMessage<Error>("rank 1 can't join: rank 2 of 3 has not joined within 1 s"));
}

TEST_F(Joining, AFirstRankThatEndsEndsTheOthers) {
    std::future<Socket> second = joins({.rank = 1, .ranks = 2});
    listener_.accept(within(kLong))->send_frame("headroom:", within(kLong));
    EXPECT_THAT([&] { second.get(); }, ThrowsMessage<PeerGone>(HasSubstr("rank 0 at " + address_ + " has ended")));
}

TEST_F(Joining, AnotherProgramIsNoFirstRank) {
    for (const char* const answer : {"\x03\0\0\0\0\0\0\0yes", "HTTP/1.1 400 Bad Request"}) {
        std::future<Socket> second = joins({.rank = 1, .ranks = 2});
        const Socket first = *listener_.accept(within(kLong));
        first.send(std::as_bytes(std::span(answer, 11)), within(kLong));
        EXPECT_THAT([&] { second.get(); }, ThrowsMessage<Error>("another program answers at " + address_));
    }
}

}  // namespace joining_test
}  // namespace headroom::dist
