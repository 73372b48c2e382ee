#include <headroom/dist/internal/sockets.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace headroom::dist {

namespace {

using std::chrono::milliseconds;
using Clock = Deadline::clock;

constexpr milliseconds kBetweenAttempts{50};

std::string reason(int error) { return std::system_category().message(error); }

/// What a name stands for. Errors: `why` says so, and there is none.
std::shared_ptr<addrinfo> look_up(const Address& address, int flags, std::string& why) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_flags = flags | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    const char* const host = address.host.empty() ? nullptr : address.host.c_str();
    if (const int error = getaddrinfo(host, address.port.c_str(), &hints, &found)) {
        why = error == EAI_SYSTEM ? reason(errno) : gai_strerror(error);
        return nullptr;
    }
    return {found, freeaddrinfo};
}

template <class Value>
void set_option(const Descriptor& socket, int level, int name, Value value) {
    setsockopt(socket.number(), level, name, &value, sizeof(value));
}

/// Of this or of the other end.
template <class Name>
sockaddr_storage address_of(const Descriptor& socket, const Name& name) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    name(socket.number(), reinterpret_cast<sockaddr*>(&address), &size);
    return address;
}

/// A port from which connections are made may be one that nobody listens at: then both ends are this one.
bool is_connected_to_itself(const Descriptor& socket) {
    const sockaddr_storage own = address_of(socket, getsockname), other = address_of(socket, getpeername);
    return std::memcmp(&own, &other, sizeof(own)) == 0;
}

/// Not open: `why` says why.
Socket try_to_connect(const addrinfo& at, Deadline until, std::string& why) {
    const int number = ::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
    int error = number < 0 ? errno : 0;
    Socket made(number);
    if (error == 0 && ::connect(number, at.ai_addr, at.ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS || error == EINTR) {
        pollfd connected{number, POLLOUT, 0};
        error = ETIMEDOUT;
        socklen_t size = sizeof(error);
        if (wait_for({&connected, 1}, until)) getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0 && is_connected_to_itself(made)) error = ECONNREFUSED;
    if (error == 0) return made;
    why = reason(error);
    return {};
}

/// Repeats what goes only in part, until all has gone. `some` returns the bytes that went, 0 if it would wait.
template <class Some>
void until_done(const Socket& socket, short event, std::size_t bytes, Deadline until, const Some& some) {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t went = some(done);
        done += went;
        if (went > 0) continue;
        pollfd ready{socket.number(), event, 0};
        if (!wait_for({&ready, 1}, until))
            throw TimedOut(fmt::format("{} of {} bytes {} in time", done, bytes,
                                       event == POLLIN ? "have arrived" : "have been sent"));
    }
}

/// Of what send(2) or recv(2) returned.
std::size_t bytes_that_went(ssize_t result) {
    if (result >= 0) return static_cast<std::size_t>(result);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    throw PeerGone(fmt::format("the connection has ended: {}", reason(errno)));
}

}  // namespace

Deadline within(double seconds) {
    const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, 1e8));
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

Address Address::parse(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    std::string_view host = text.substr(0, std::min(colon, text.size()));
    int number = -1;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 0 || number > 65535)
        throw Error(fmt::format("\"{}\" is not an address of the form HOST:PORT", text));
    const bool in_brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
    if (in_brackets) host = host.substr(1, host.size() - 2);
    if (host.find_first_of("[]") != std::string_view::npos ||
        (!in_brackets && host.find(':') != std::string_view::npos))
        throw Error(
            fmt::format("\"{}\" is not an address of the form HOST:PORT, with an IPv6 address in brackets", text));
    return {std::string(host), std::string(port)};
}

std::string Address::text() const {
    return fmt::format(fmt::runtime(host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}"), host, port);
}

bool wait_for(std::span<pollfd> sockets, Deadline until) {
    for (;;) {
        int wait = -1;
        if (until != kNoDeadline) {
            const auto now = Clock::now(), then = std::clamp(until, now, now + std::chrono::minutes(10));
            wait = static_cast<int>(std::chrono::ceil<milliseconds>(then - now).count());
        }
        const int ready = poll(sockets.data(), sockets.size(), wait);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR && errno != EAGAIN) throw Error(fmt::format("poll failed: {}", reason(errno)));
        if (ready == 0 && Clock::now() >= until) return false;
    }
}

Descriptor::~Descriptor() {
    if (is_open()) close(number_);
}

void Descriptor::shutdown() const noexcept {
    if (is_open()) ::shutdown(number_, SHUT_RDWR);
}

Socket::Socket(int number) : Descriptor(number) {
    set_option(*this, IPPROTO_TCP, TCP_NODELAY, 1);
    // A machine that is gone says nothing. One that is busy answers, however long it does not read.
    set_option(*this, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(*this, IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set_option(*this, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(*this, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

Socket Socket::connect(const std::string& address, Deadline until, double attempt) {
    const Address to = Address::parse(address);
    for (;;) {
        std::string why;
        const std::shared_ptr<addrinfo> found = look_up(to, 0, why);
        for (const addrinfo* at = found.get(); at; at = at->ai_next) {
            if (Socket made = try_to_connect(*at, std::min(until, within(attempt)), why); made.is_open()) return made;
        }
        if (Clock::now() + kBetweenAttempts >= until)
            throw TimedOut(fmt::format("no process accepts connections at {}: {}", address, why));
        std::this_thread::sleep_for(kBetweenAttempts);
    }
}

std::size_t Socket::send_some(std::span<const std::byte> bytes) const {
    return bytes_that_went(::send(number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

std::size_t Socket::receive_some(std::span<std::byte> bytes) const {
    const ssize_t result = recv(number(), bytes.data(), bytes.size(), 0);
    if (result == 0 && !bytes.empty()) throw PeerGone("the other end has closed the connection");
    return bytes_that_went(result);
}

void Socket::send(std::span<const std::byte> bytes, Deadline until) const {
    until_done(*this, POLLOUT, bytes.size(), until, [&](std::size_t done) { return send_some(bytes.subspan(done)); });
}

void Socket::receive(std::span<std::byte> bytes, Deadline until) const {
    until_done(*this, POLLIN, bytes.size(), until, [&](std::size_t done) { return receive_some(bytes.subspan(done)); });
}

void Socket::send_frame(std::string_view bytes, Deadline until) const {
    const std::uint64_t count = bytes.size();
    std::string frame(sizeof(count), '\0');
    std::memcpy(frame.data(), &count, sizeof(count));
    frame += bytes;
    send(std::as_bytes(std::span(frame)), until);
}

std::string Socket::receive_frame(std::size_t most, Deadline until) const {
    std::uint64_t count = 0;
    receive(std::as_writable_bytes(std::span(&count, 1)), until);
    if (count > most) throw Error(fmt::format("a message of {} bytes came where at most {} are allowed", count, most));
    std::string bytes(count, '\0');
    receive(std::as_writable_bytes(std::span(bytes)), until);
    return bytes;
}

Listener::Listener(const std::string& address) {
    const Address at_text = Address::parse(address);
    std::string why;
    const std::shared_ptr<addrinfo> found = look_up(at_text, AI_PASSIVE, why);
    // Without a host: at an IPv6 address that takes IPv4 as well, where there is IPv6.
    for (const int family : {AF_INET6, AF_INET}) {
        for (const addrinfo* at = found.get(); at && !is_open(); at = at->ai_next) {
            if (at->ai_family != family) continue;
            Descriptor made(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
            set_option(made, SOL_SOCKET, SO_REUSEADDR, 1);
            if (family == AF_INET6) set_option(made, IPPROTO_IPV6, IPV6_V6ONLY, at_text.host.empty() ? 0 : 1);
            if (bind(made.number(), at->ai_addr, at->ai_addrlen) == 0 && listen(made.number(), SOMAXCONN) == 0)
                Descriptor::operator=(std::move(made));
            else
                why = reason(errno);
        }
    }
    if (!is_open()) throw Error(fmt::format("can't listen at {}: {}", address, why));
}

int Listener::port() const {
    const sockaddr_storage own = address_of(*this, getsockname);
    return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

std::optional<Socket> Listener::accept(Deadline until) const {
    for (;;) {
        const int made = accept4(number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (made >= 0) return Socket(made);
        if (errno == EINVAL) throw PeerGone("the port no longer accepts connections");
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            throw Error(fmt::format("can't accept a connection: {}", reason(errno)));
        // Anything else is said of a connection that has ended before it was accepted.
        pollfd ready{number(), POLLIN, 0};
        if (!wait_for({&ready, 1}, until)) return std::nullopt;
    }
}

}  // namespace headroom::dist
