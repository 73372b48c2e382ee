#include <headroom/dist/internal/watch.hpp>

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/internal/exchange_count.hpp>
#include <headroom/dist/internal/joining.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

using Clock = Deadline::clock;

/// Seconds: for one frame, whose bytes come together; for the others to leave.
constexpr double kFrame = 10, kLeave = 2;
constexpr std::size_t kMostFrame = 4096;

/// What a frame begins with.
constexpr std::string_view kBeat = "b", kAnswer = "a", kGoodbye = "g", kEnd = "e";

/// Signs of life in the time that others have patience for.
double tick_of(double patience) { return std::clamp(patience / 10, 0.02, 1.0); }

std::string text_of(const Beat& beat) {
    return fmt::format("{}{} {:d} {}", kBeat, beat.steps, beat.waits, beat.exchanges);
}

Beat beat_of(const std::string& frame) {
    Beat beat;
    std::istringstream(frame.substr(1)) >> beat.steps >> beat.waits >> beat.exchanges;
    return beat;
}

/// Neither a lock of another thread nor the GPU, which `last` may wait for, keeps it from ending. What the main thread
/// meets from now on follows from it and is not told.
[[noreturn]] void end_process(const std::string& line, const std::function<void()>& last) {
    if (!line.empty()) {
        const std::string text = line + '\n';
        if (::write(STDERR_FILENO, text.data(), text.size()) < 0) std::_Exit(1);
    }
    if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
    std::atomic<bool> done = false;
    std::thread([&] {
        std::fflush(nullptr);
        last();
        done = true;
    }).detach();
    for (int i = 0; i < 500 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::_Exit(1);
}

/// By which other machines may reach this one.
std::vector<std::string> own_addresses() {
    std::vector<std::string> addresses;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return addresses;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, freeifaddrs);
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
        const int family = one->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        char text[NI_MAXHOST] = {};
        const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        if (getnameinfo(one->ifa_addr, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
        if (!std::strchr(text, '%')) addresses.emplace_back(text);  // those of a link mean nothing elsewhere
    }
    return addresses;
}

/// What rank 0 tells all others, by way of `hosts`.
struct Invitation {
    std::uint64_t job = 0;
    std::vector<std::string> addresses;

    std::string text() const { return fmt::format("{} {}", job, fmt::join(addresses, " ")); }
    static Invitation of(const std::string& text) {
        Invitation invitation;
        std::istringstream words(text);
        words >> invitation.job;
        for (std::string address; words >> address;) invitation.addresses.push_back(address);
        return invitation;
    }
};

Invitation invite(const Listener& listener, const std::string& first_host) {
    std::random_device random;
    Invitation invitation{.job = std::uint64_t{random()} << 32 | random(), .addresses = {}};
    const std::vector<std::string> hosts = first_host.empty() ? own_addresses() : std::vector{first_host};
    for (const std::string& host : hosts)
        invitation.addresses.push_back(Address{host, std::to_string(listener.port())}.text());
    return invitation;
}

Socket connect_to_one_of(const std::vector<std::string>& addresses, const Hello& own, double seconds) {
    std::vector<std::string> reasons;
    for (const std::string& address : addresses) {
        try {
            return connect_to_first(address, own, seconds / static_cast<double>(addresses.size()));
        } catch (const Error& error) {
            reasons.emplace_back(error.what());
        }
    }
    throw Error(reasons.empty() ? "rank 0 has no network address" : fmt::format("{}", fmt::join(reasons, "; ")));
}

std::vector<Socket> meet(Group& hosts, const std::string& first_host, double seconds, std::string& why_not) {
    constexpr const char* kHere = "127.0.0.1";
    std::optional<Listener> listener;
    Invitation invitation;
    try {
        if (hosts.rank() == 0) {
            listener.emplace(fmt::format("{}:0", first_host == kHere ? kHere : ""));
            invitation = invite(*listener, first_host);
        }
    } catch (const Error& error) {
        why_not = error.what();
    }
    invitation = Invitation::of(all_gather(hosts, invitation.text())[0]);
    const Hello own{.rank = hosts.rank(), .ranks = hosts.ranks(), .job = invitation.job};
    std::vector<Socket> connections;
    try {
        if (hosts.rank() > 0)
            connections.push_back(connect_to_one_of(invitation.addresses, own, seconds));
        else if (listener)
            connections = receive_ranks(*listener, own, seconds);
    } catch (const Error& error) {
        why_not = error.what();
    }
    return connections;
}

}  // namespace

JoinDeadline::JoinDeadline(int rank, const std::string& ranks, double seconds) {
    thread_ = std::thread([=, this] {
        const double tick = tick_of(seconds), until = seconds + 0.2 * std::min(rank, 10);
        WatchedTime time(tick);
        double passed = 0;
        std::unique_lock lock(mutex_);
        while (!joined_) {
            over_.wait_for(lock, std::chrono::duration<double>(tick));
            passed += time.pass(Clock::now());
            if (joined_ || passed < until) continue;
            end_process(fmt::format("rank {}: not all of {} joined within {:g} s; --join-timeout sets how long they "
                                    "may take",
                                    rank, ranks, seconds),
                        [] {});
        }
    });
}

JoinDeadline::~JoinDeadline() {
    {
        const std::lock_guard lock(mutex_);
        joined_ = true;
    }
    over_.notify_one();
    thread_.join();
}

std::shared_ptr<Watch> Watch::begin(Group& hosts, const std::string& first_host, double patience, std::string& why_not,
                                    double meeting) {
    std::string own;
    std::vector<Socket> connections = meet(hosts, first_host, meeting, own);
    for (const std::string& reason : all_gather(hosts, own)) {
        if (why_not.empty()) why_not = reason;
    }
    if (!why_not.empty()) connections.clear();
    return std::shared_ptr<Watch>(new Watch(hosts.rank(), std::move(connections), patience));
}

Watch::Watch(int rank, std::vector<Socket> connections, double patience)
    : main_(memory::progress_of_this_thread()),
      exchanges_(exchanges_of_this_thread()),
      rank_(rank),
      connections_(std::move(connections)),
      patience_(patience),
      tick_(tick_of(patience)),
      exceptions_(std::uncaught_exceptions()),
      time_(tick_),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] {
          sigset_t all;
          sigfillset(&all);
          pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they interrupt what the main thread does
          run();
      }) {}

Watch::~Watch() {
    in_order_ = std::uncaught_exceptions() == exceptions_;
    leaving_ = true;
    eventfd_write(wake_.number(), 1);
    thread_.join();
}

std::shared_ptr<Group> Watch::look_after(std::shared_ptr<NcclGroup> group) {
    NcclGroup* const watched = group.get();
    {
        const std::lock_guard lock(mutex_);
        groups_.push_back(watched);
    }
    // Its last owner ends it, never the watch's thread.
    return {watched, [watch = shared_from_this(), group = std::move(group)](Group*) mutable {
                {
                    const std::lock_guard lock(watch->mutex_);
                    std::erase(watch->groups_, group.get());
                }
                group.reset();
            }};
}

Beat Watch::beat() const {
    return {.steps = main_.steps.load(std::memory_order_relaxed),
            .waits = main_.waits.load(std::memory_order_relaxed) > 0,
            .exchanges = exchanges_.load(std::memory_order_relaxed)};
}

std::vector<pollfd> Watch::wait() const {
    std::vector<pollfd> sockets;
    for (const Socket& socket : connections_) sockets.push_back({socket.number(), POLLIN, 0});  // below 0: none
    sockets.push_back({wake_.number(), POLLIN, 0});
    wait_for(sockets, within(tick_));
    return sockets;
}

void Watch::look_after_groups() {
    std::string why;
    {
        const std::lock_guard lock(mutex_);
        for (NcclGroup* const group : groups_) {
            if (why.empty()) why = group->failure();
        }
    }
    if (why.empty()) {
        failing_since_.reset();
    } else if (!failing_since_) {
        failing_since_ = Clock::now();  // the rank that has failed, and this one, report it better
    } else if (std::chrono::duration<double>(Clock::now() - *failing_since_).count() >= WatchedRanks::kGrace) {
        end(why);
    }
}

void Watch::run() {
    if (!connections_.empty()) rank_ == 0 ? watch_others() : report_to_first();
    while (!leaving_) {
        wait();
        look_after_groups();
    }
}

void Watch::watch_others() {
    WatchedRanks ranks(static_cast<int>(connections_.size()), patience_);
    while (!leaving_) {
        const std::vector<pollfd> sockets = wait();
        ranks.pass(time_.pass(Clock::now()));
        ranks.heard(0, beat());
        for (std::size_t r = 1; r < connections_.size(); ++r) {
            if (sockets[r].revents) hear(ranks, static_cast<int>(r));
        }
        look_after_groups();
        if (const std::string why = ranks.verdict(); !why.empty() && !leaving_) end(why);
    }
    if (in_order_) part(kGoodbye);
}

void Watch::hear(WatchedRanks& ranks, int rank) {
    Socket& from = connections_[static_cast<std::size_t>(rank)];
    try {
        const std::string frame = from.receive_frame(kMostFrame, within(kFrame));
        if (frame.starts_with(kBeat)) {
            ranks.heard(rank, beat_of(frame));
            return from.send_frame(kAnswer, within(kFrame));
        }
        ranks.finished(rank);
    } catch (const Error&) {
        ranks.lost(rank);
    }
    from = Socket();
}

void Watch::report_to_first() {
    try {
        keep_reporting();
    } catch (const Error&) {
        pollfd leaving{wake_.number(), POLLIN, 0};
        if (!wait_for({&leaving, 1}, within(WatchedRanks::kGrace)))
            end("rank 0 has ended without finishing the job, which ends all ranks");
    }
    connections_.clear();
}

void Watch::keep_reporting() {
    const Socket& first = connections_[0];
    bool asked = false;  // no more than one beat is on its way, however long rank 0 is suspended
    double silent = 0;
    for (Deadline next = Clock::now(); !leaving_;) {
        if (!asked && Clock::now() >= next) {
            first.send_frame(text_of(beat()), within(kFrame));
            asked = true;
            next = within(tick_);
        }
        const bool came = wait()[0].revents != 0;
        silent += time_.pass(Clock::now());
        look_after_groups();
        if (came) {
            const std::string frame = first.receive_frame(kMostFrame, within(kFrame));
            if (frame.starts_with(kGoodbye)) return;
            if (frame.starts_with(kEnd)) end("");
            asked = false;
            silent = 0;
        }
        if (silent >= patience_) end(fmt::format("rank 0 has not answered for {:g} s", patience_));
    }
    if (in_order_) part(kGoodbye);
}

void Watch::part(std::string_view frame) {
    for (Socket& socket : connections_) {
        try {
            if (socket.is_open()) socket.send_frame(frame, Deadline::min());
        } catch (const Error&) {
            socket = Socket();
        }
    }
    const Deadline until = within(kLeave);
    for (Socket& socket : connections_) {
        try {
            while (socket.is_open() && !socket.receive_frame(kMostFrame, until).starts_with(kGoodbye)) {
            }
        } catch (const Error&) {  // it is gone
        }
    }
}

void Watch::end(const std::string& line) {
    end_process(line, [this] {
        if (rank_ == 0) part(kEnd);
        const std::lock_guard lock(mutex_);
        for (NcclGroup* const group : groups_) group->abort();
    });
}

}  // namespace headroom::dist
