// Connections over this machine's own addresses: what arrives, what ends, and what is refused.
#include <headroom/dist/internal/sockets.hpp>

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::dist {
namespace sockets_test {

using testing::AnyOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Seconds, for a test that hangs.
constexpr double kLong = 600;
const Deadline kPast = Deadline::min();

struct Pair {
    Socket one, other;
};
Pair connected() {
    const Listener listener("127.0.0.1:0");
    Socket one = Socket::connect(fmt::format("127.0.0.1:{}", listener.port()), within(kLong));
    return {std::move(one), std::move(*listener.accept(within(kLong)))};
}

/// An address of this machine whose ports no other test uses.
std::string own_host() { return fmt::format("127.{}.{}.1", getpid() / 256 % 256, getpid() % 256); }

bool has_ipv6() {
    try {
        const Listener listener("[::1]:0");
        return true;
    } catch (const Error&) {
        return false;
    }
}

TEST(Sockets, AddressesAreAHostAndAPort) {
    for (const auto& [text, host, port] : {std::tuple{"node0:29500", "node0", "29500"},
                                           {"127.0.0.1:0", "127.0.0.1", "0"},
                                           {"[fe80::1]:65535", "fe80::1", "65535"},
                                           {":80", "", "80"}}) {
        const Address address = Address::parse(text);
        EXPECT_EQ(address.host, host);
        EXPECT_EQ(address.port, port);
        EXPECT_EQ(address.text(), text);
    }
    for (const char* const text : {"", "node0", "node0:", "node0:x", "node0:65536", "node0:-1", "::1:80", "[::1]",
                                   "[::1:80", "node0:80 ", "[a]b:80"})
        EXPECT_THAT([&] { Address::parse(text); }, ThrowsMessage<Error>(HasSubstr("is not an address of the form")))
            << text;
}

TEST(Sockets, EveryAddressOfThisMachineIsListenedAt) {
    std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
    if (has_ipv6()) hosts.emplace_back("[::1]");
    const Listener all(":0");
    for (const std::string& host : hosts) {
        const Listener own(host + ":0");
        for (const Listener* listener : {&all, &own}) {
            const Socket one = Socket::connect(fmt::format("{}:{}", host, listener->port()), within(kLong));
            const Socket other = *listener->accept(within(kLong));
            one.send_frame(host, within(kLong));
            EXPECT_EQ(other.receive_frame(64, within(kLong)), host);
        }
    }
}

TEST(Sockets, FramesArriveWholeAndInOrder) {
    const Pair pair = connected();
    const std::string large(std::size_t{8} << 20, 'x');  // more than the system keeps
    std::thread sender([&] {
        for (const std::string& text : {std::string(), std::string("\0a", 2), large, std::string("last")})
            pair.one.send_frame(text, kNoDeadline);
    });
    EXPECT_EQ(pair.other.receive_frame(0, kNoDeadline), "");
    EXPECT_EQ(pair.other.receive_frame(2, kNoDeadline), std::string("\0a", 2));
    EXPECT_EQ(pair.other.receive_frame(large.size(), kNoDeadline), large);
    EXPECT_EQ(pair.other.receive_frame(4, kNoDeadline), "last");
    sender.join();
}

TEST(Sockets, AFrameOfAnySizeIsRefusedBeforeItIsReceived) {
    const Pair pair = connected();
    const std::string count(8, '\x7f');
    pair.one.send(std::as_bytes(std::span(count)), within(kLong));
    EXPECT_THAT([&] { pair.other.receive_frame(100, within(kLong)); },
                ThrowsMessage<Error>(HasSubstr("bytes came where at most 100 are allowed")));
}

TEST(Sockets, DeadlinesEndWhatWaits) {
    const Listener listener("127.0.0.1:0");
    EXPECT_FALSE(listener.accept(kPast));
    const Pair pair = connected();
    EXPECT_THROW(pair.one.receive_frame(8, kPast), TimedOut);
    const std::string large(std::size_t{64} << 20, 'x');
    EXPECT_THROW(pair.one.send_frame(large, kPast), TimedOut);
}

/// One that is neither accepted nor refused, as where a firewall drops what it does not like: its queue is full.
TEST(Sockets, ADeadlineEndsAnAttemptThatNobodyAnswers) {
    const Descriptor full(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    ASSERT_EQ(bind(full.number(), reinterpret_cast<sockaddr*>(&at), size), 0);
    ASSERT_EQ(listen(full.number(), 0), 0);
    ASSERT_EQ(getsockname(full.number(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    std::vector<Descriptor> waiting;
    for (int i = 0; i < 8; ++i) {
        waiting.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        connect(waiting.back().number(), reinterpret_cast<sockaddr*>(&at), size);
    }
    const auto begin = std::chrono::steady_clock::now();
    const std::string address = fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
    EXPECT_THAT([&] { Socket::connect(address, kPast, kLong); },
                ThrowsMessage<TimedOut>(HasSubstr("Connection timed out")));
    EXPECT_LT(std::chrono::steady_clock::now(), begin + std::chrono::duration<double>(kLong)) << "an attempt's time";
}

TEST(Sockets, AnEndIsOfItsOwnKind) {
    Pair pair = connected();
    pair.one.send_frame("last words", within(kLong));
    pair.one = Socket();
    EXPECT_EQ(pair.other.receive_frame(64, within(kLong)), "last words");
    EXPECT_THROW(pair.other.receive_frame(64, within(kLong)), PeerGone);
    const std::string some(1 << 16, 'x');
    EXPECT_THROW(
        {
            for (;;) pair.other.send_frame(some, within(kLong));  // which ends no process
        },
        PeerGone);
}

TEST(Sockets, AnotherThreadEndsWhatWaits) {
    const Pair pair = connected();
    const Listener listener("127.0.0.1:0");
    const auto ends = [](const auto& wait) {
        return std::async(std::launch::async, [wait] { EXPECT_THROW(wait(), PeerGone); });
    };
    std::vector<std::future<void>> waiting;
    waiting.push_back(ends([&] { pair.one.receive_frame(8, kNoDeadline); }));
    waiting.push_back(ends([&] { listener.accept(kNoDeadline); }));
    pair.one.shutdown();
    listener.shutdown();
    for (std::future<void>& wait : waiting) wait.get();
    EXPECT_THROW(pair.other.receive_frame(8, kNoDeadline), PeerGone);
}

TEST(Sockets, WhoComesFirstWaitsForTheListener) {
    int port = 0;
    {
        const Listener before(own_host() + ":0");
        port = before.port();
    }
    const std::string address = fmt::format("{}:{}", own_host(), port);
    std::future<Socket> early = std::async(std::launch::async, [&] { return Socket::connect(address, within(kLong)); });
    const Listener listener(address);
    const Socket late = *listener.accept(within(kLong));
    late.send_frame("here", within(kLong));
    EXPECT_EQ(early.get().receive_frame(4, within(kLong)), "here");
}

/// Where connections are made from one port alone, and nobody listens there: in a network of a thread's own.
TEST(Sockets, AConnectionToItselfIsNone) {
    std::thread([] {
        const bool own = unshare(CLONE_NEWNET) == 0;
        ifreq loopback{};
        std::strcpy(loopback.ifr_name, "lo");
        loopback.ifr_flags = IFF_UP;
        const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (!own || ioctl(any.number(), SIOCSIFFLAGS, &loopback) != 0 ||
            !(std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40000" << std::flush))
            GTEST_SKIP() << "no network namespace can be made here";
        EXPECT_THAT([] { Socket::connect("127.0.0.1:40000", within(0.2)); },
                    ThrowsMessage<TimedOut>(HasSubstr("no process accepts connections at 127.0.0.1:40000")));
    }).join();
}

TEST(Sockets, ReasonsAreSaid) {
    std::string taken;
    {
        const Listener listener(own_host() + ":0");
        taken = fmt::format("{}:{}", own_host(), listener.port());
        EXPECT_THAT([&] { const Listener second(taken); },
                    ThrowsMessage<Error>(HasSubstr("can't listen at " + taken + ": Address already in use")));
    }
    EXPECT_THAT([&] { Socket::connect(taken, kPast); },
                ThrowsMessage<TimedOut>(HasSubstr("no process accepts connections at " + taken + ": ")));
    EXPECT_THAT([] { const Listener listener("192.0.2.1:0"); },
                ThrowsMessage<Error>(HasSubstr("can't listen at 192.0.2.1:0: Cannot assign")));
    EXPECT_THAT([] { Socket::connect("nobody.invalid:80", kPast); },
                ThrowsMessage<TimedOut>(HasSubstr("no process accepts connections at nobody.invalid:80: ")));
}

/// A machine that loses its power says nothing: after a minute and a half without an answer the connection has ended.
TEST(Sockets, AskWhetherTheOtherEndIsThere) {
    const Pair pair = connected();
    const auto option = [](const Socket& socket, int level, int name) {
        int value = 0;
        socklen_t size = sizeof(value);
        EXPECT_EQ(getsockopt(socket.number(), level, name, &value, &size), 0);
        return value;
    };
    for (const Socket* const socket : {&pair.one, &pair.other}) {
        EXPECT_EQ(option(*socket, SOL_SOCKET, SO_KEEPALIVE), 1);
        EXPECT_EQ(option(*socket, IPPROTO_TCP, TCP_KEEPIDLE) +
                      option(*socket, IPPROTO_TCP, TCP_KEEPCNT) * option(*socket, IPPROTO_TCP, TCP_KEEPINTVL),
                  90);
    }
}

TEST(Sockets, AreClosedInAnotherProgram) {
    const Pair pair = connected();
    const Listener listener("127.0.0.1:0");
    for (const int number : {pair.one.number(), pair.other.number(), listener.number()})
        EXPECT_TRUE(fcntl(number, F_GETFD) & FD_CLOEXEC);
}

}  // namespace sockets_test
}  // namespace headroom::dist
