// Ranks over TCP, as threads: what they exchange, in any order and amount, and how errors reach all of them.
#include <headroom/dist/tcp.hpp>

#include <unistd.h>

#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {
namespace tcp_test {

using dist::hosts_over_tcp;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Seconds, for a test that hangs.
constexpr double kLong = 600;

/// A port that was free, of an address of this machine that no other test uses.
std::string free_address() {
    const std::string host = fmt::format("127.{}.{}.2", getpid() / 256 % 256, getpid() % 256);
    const dist::Listener listener(host + ":0");
    return fmt::format("{}:{}", host, listener.port());
}

/// `work` in each rank's thread; the texts of their errors, by rank.
template <class Work>
std::vector<std::string> over_tcp(int ranks, const Work& work) {
    const std::string address = free_address();
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                work(hosts_over_tcp({.rank = rank, .ranks = ranks, .address = address}, kLong));
            } catch (const Error& error) {
                errors[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

/// Bytes that tell who sent them to whom, and which they are.
std::byte told(int from, int to, std::size_t i) {
    return static_cast<std::byte>(31 * static_cast<std::size_t>(from) + 7 * static_cast<std::size_t>(to) + i + i / 251);
}

/// Each rank sends `size(from, to)` bytes to each one, itself included, and looks at what it receives.
template <class Size>
void exchange_all(Group& group, const Size& size) {
    const int own = group.rank(), ranks = group.ranks();
    std::vector<std::byte> send, receive;
    std::vector<Group::Extent> sends, receives;
    for (int q = 0; q < ranks; ++q) {
        sends.push_back({send.size(), size(own, q)});
        for (std::size_t i = 0; i < size(own, q); ++i) send.push_back(told(own, q, i));
        receives.push_back({receive.size(), size(q, own)});
        receive.resize(receive.size() + size(q, own));
    }
    group.all_to_all(send.data(), sends, receive.data(), receives);
    for (int q = 0; q < ranks; ++q) {
        const Group::Extent part = receives[static_cast<std::size_t>(q)];
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < part.bytes; ++i) wrong += receive[part.offset + i] != told(q, own, i);
        EXPECT_EQ(wrong, 0u) << "from rank " << q << " to " << own;
    }
}

TEST(Tcp, MovesWhatEachRankSendsToEach) {
    for (const int ranks : {2, 3, 4, 7}) {
        const auto errors = over_tcp(ranks, [](const std::shared_ptr<Group>& group) {
            exchange_all(*group, [](int, int) { return std::size_t{0}; });
            exchange_all(*group, [](int, int) { return std::size_t{5}; });
            exchange_all(*group, [](int from, int to) { return static_cast<std::size_t>(1000 * from + 17 * to); });
            // One sends a lot to one, and to nobody else.
            exchange_all(*group, [](int from, int to) { return std::size_t{from == 1 && to == 0 ? 1u << 20 : 0u}; });
            // More than the system and rank 0 keep, all at once.
            exchange_all(*group,
                         [&](int, int to) { return (std::size_t{8} << 20) / 4 + static_cast<std::size_t>(to); });
        });
        EXPECT_THAT(errors, testing::Each("")) << ranks;
    }
}

TEST(Tcp, RanksNeedNotComeToAnExchangeAtOnce) {
    const auto errors = over_tcp(3, [](const std::shared_ptr<Group>& group) {
        for (int i = 0; i < 100; ++i) {
            exchange_all(*group,
                         [&](int from, int to) { return static_cast<std::size_t>((from + to + i) % 3 * 4000); });
            if (group->rank() == i % 3) std::this_thread::yield();
        }
    });
    EXPECT_THAT(errors, testing::Each(""));
}

TEST(Tcp, ReceivesInTheBufferThatIsSent) {
    const auto errors = over_tcp(3, [](const std::shared_ptr<Group>& group) {
        std::vector<std::string> texts = all_gather(*group, fmt::format("rank {}", group->rank()));
        EXPECT_THAT(texts, testing::ElementsAre("rank 0", "rank 1", "rank 2"));
        Context context = Context::cpu({.threads = 1, .group = group});
        std::vector<float> rows(6, -1.0f);
        rows[static_cast<std::size_t>(2 * group->rank())] = static_cast<float>(group->rank());
        const Tensor gathered = context.from_host(rows, {3, 2});
        all_gather_rows(context.exec(), *group, gathered.array());
        EXPECT_THAT(gathered.to_vector<float>(), testing::ElementsAre(0, -1, 1, -1, 2, -1));
    });
    EXPECT_THAT(errors, testing::Each(""));
}

TEST(Tcp, DisagreementAboutSizesEndsAll) {
    for (const int wrong : {0, 1, 2}) {
        const auto errors = over_tcp(3, [&](const std::shared_ptr<Group>& group) {
            const auto size = [&](int from, int to) {
                const bool differs = group->rank() == wrong && from == (wrong + 1) % 3 && to == wrong;
                return std::size_t{differs ? 12u : 11u};
            };
            exchange_all(*group, size);
            all_gather(*group, 0.0);  // who was done before that learns of it now
        });
        EXPECT_THAT(errors, testing::Each(testing::Not(""))) << wrong;
        EXPECT_EQ(errors[static_cast<std::size_t>(wrong)],
                  fmt::format("rank {}: rank {} sent 11 bytes where 12 were expected", wrong, (wrong + 1) % 3));
    }
}

TEST(Tcp, ARankThatEndsEndsTheOthersExchanges) {
    for (const int ends : {0, 1, 2}) {
        const auto errors = over_tcp(3, [&](const std::shared_ptr<Group>& group) {
            all_gather(*group, 0.0);
            if (group->rank() == ends) return;
            EXPECT_THAT([&] { all_gather(*group, 1.0); }, ThrowsMessage<Error>(HasSubstr("has ended")));
            all_gather(*group, 2.0);
        });
        for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(errors[static_cast<std::size_t>(rank)],
                      rank == ends ? "" : fmt::format("rank {}: an earlier exchange has failed", rank));
        }
    }
}

TEST(Tcp, ARankSendsItselfWhatItReceives) {
    const auto errors = over_tcp(2, [](const std::shared_ptr<Group>& group) {
        const std::vector<Group::Extent> sends = {{0, 8}, {0, 8}}, receives = {{8, 4}, {8, 4}};
        std::vector<std::byte> bytes(16);
        group->all_to_all(bytes.data(), sends, bytes.data(), receives);
    });
    EXPECT_THAT(errors, testing::Each("group: a rank sends itself a different number of bytes than it receives"));
}

/// Where the first rank is met at an address of one machine, no other machine reaches its port.
TEST(Tcp, AMeetingOfOneMachineIsHeldAtItsAddressAlone) {
    const dist::Address at = dist::Address::parse(free_address());
    const auto rank = [&](int own) { return hosts_over_tcp({.rank = own, .ranks = 2, .address = at.text()}, kLong); };
    const std::future<std::shared_ptr<Group>> first = std::async(std::launch::async, rank, 0);
    dist::Socket::connect(at.text(), dist::within(kLong));  // it listens
    const std::string beside = at.host.substr(0, at.host.rfind('.')) + ".3:" + at.port;
    EXPECT_THAT([&] { dist::Socket::connect(beside, dist::Deadline::min()); },
                ThrowsMessage<dist::TimedOut>(HasSubstr("Connection refused")));
    EXPECT_EQ(rank(1)->ranks(), 2);
}

/// Elsewhere the first rank's name may stand for an address that its own machine does not have, or for a loopback one.
TEST(Tcp, AMeetingOfSeveralMachinesIsHeldAtAllAddressesOfTheFirst) {
    const std::string port = std::to_string(10000 + getpid() % 10000);  // below those that the system gives
    const auto rank = [&](int own, const char* host) {
        return hosts_over_tcp({.rank = own, .ranks = 2, .address = fmt::format("{}:{}", host, port)}, kLong);
    };
    const std::future<std::shared_ptr<Group>> first = std::async(std::launch::async, rank, 0, "203.0.113.1");
    EXPECT_EQ(rank(1, "127.0.0.1")->ranks(), 2);
}

TEST(Tcp, RanksThatNeverComeAreNamed) {
    EXPECT_THAT(([] { hosts_over_tcp({.rank = 0, .ranks = 3, .address = free_address()}, 0); }),
                ThrowsMessage<Error>("ranks 1, 2 of 3 have not joined within 0 s"));
    EXPECT_THAT(
        ([] { hosts_over_tcp({.rank = 2, .ranks = 3, .address = free_address()}, 0); }),
        ThrowsMessage<Error>(HasSubstr("rank 2 can't join within 0 s: no process accepts connections at 127.")));
    EXPECT_THAT(([] { hosts_over_tcp({.rank = 0, .ranks = 3, .address = "node0"}, 0); }),
                ThrowsMessage<Error>(HasSubstr("\"node0\" is not an address")));
}

}  // namespace tcp_test
}  // namespace headroom
