#pragma once
// TCP between the processes of a job: what waits has a deadline, and another thread can end it by `shutdown`. Sockets
// do not block, are closed in a process that this one starts, and never raise SIGPIPE. How the ranks of a job find each
// other over them is in joining.hpp.
//
//     Listener listener("[::1]:0");                                       // any free port
//     Socket to = Socket::connect(fmt::format("[::1]:{}", listener.port()), within(10));
//     Socket from = *listener.accept(within(10));
//     to.send_frame("hello", within(10));
//     const std::string hello = from.receive_frame(/*most=*/64, kNoDeadline);
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <headroom/memory/error.hpp>

struct pollfd;  // <poll.h>

namespace headroom::dist {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();
/// So many seconds from now.
Deadline within(double seconds);

/// The other end of a connection has closed it or can't be reached any more, or `shutdown` has ended it.
class PeerGone : public Error {
  public:
    using Error::Error;
};
/// A deadline has passed.
class TimedOut : public Error {
  public:
    using Error::Error;
};

/// "HOST:PORT"; HOST is a name, an IPv4 address, an IPv6 address in brackets, or empty.
struct Address {
    std::string host, port;  ///< without the brackets
    /// Errors: Error if there is no port from 0 to 65535.
    static Address parse(std::string_view text);
    std::string text() const;
};

/// Waits until something has happened on one of `sockets`, see poll(2): true, or false if the deadline has passed.
bool wait_for(std::span<pollfd> sockets, Deadline until);

/// Owns a descriptor. `shutdown` may be called by another thread while this one waits, all else by one at a time.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }

    bool is_open() const { return number_ >= 0; }
    /// For `wait_for`.
    int number() const { return number_; }
    /// What waits for this one ends, here and at the other end; what has arrived can still be received.
    void shutdown() const noexcept;

  private:
    int number_ = -1;
};

/// One end of a connection. Errors of all that sends or receives: PeerGone; TimedOut at the deadline, after which
/// what is sent and received next fits nothing.
class Socket : public Descriptor {
  public:
    Socket() = default;
    /// Takes over what accept(2) has returned.
    explicit Socket(int number);
    /// Tries all addresses that the name stands for, in turn and again, until one accepts: the other end may come
    /// later. A look-up of the name may outlast the deadline by the resolver's own. Errors: Error if `address` is none;
    /// TimedOut with the last reason. `attempt`: the seconds that one of the addresses has to answer, as another one
    /// may.
    static Socket connect(const std::string& address, Deadline until, double attempt = 5);

    /// As many bytes as go now; 0 if none do. Errors: PeerGone.
    std::size_t send_some(std::span<const std::byte> bytes) const;
    std::size_t receive_some(std::span<std::byte> bytes) const;
    void send(std::span<const std::byte> bytes, Deadline until) const;
    void receive(std::span<std::byte> bytes, Deadline until) const;
    /// Bytes behind their number.
    void send_frame(std::string_view bytes, Deadline until) const;
    /// Errors: also Error for more than `most` bytes, before any is received.
    std::string receive_frame(std::size_t most, Deadline until) const;
};

/// Where connections are accepted.
class Listener : public Descriptor {
  public:
    /// At the first address of the host that can be listened at; all of this machine without a host; any free port
    /// for 0. Errors: Error with the system's reason.
    explicit Listener(const std::string& address);
    int port() const;
    /// None: the deadline has passed. Errors: PeerGone after `shutdown`; Error if this process can open no more.
    std::optional<Socket> accept(Deadline until) const;
};

}  // namespace headroom::dist
