#pragma once
// TCP between the processes of a job. Every wait has a deadline, and another thread can end it by `shutdown`. Sockets
// are non-blocking, are closed in child processes and never raise SIGPIPE. joining.hpp uses them to connect the ranks
// of a job.
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
/// The deadline `seconds` from now.
Deadline within(double seconds);

/// The peer has closed the connection or can't be reached any more, or `shutdown` was called.
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
    /// Errors: Error unless the port is a number from 0 to 65535.
    static Address parse(std::string_view text);
    std::string text() const;
};

/// Waits for an event on one of `sockets`, see poll(2). Returns false if the deadline has passed.
bool wait_for(std::span<pollfd> sockets, Deadline until);

/// Owns a file descriptor. Another thread may call `shutdown` during a wait; all other calls need one thread at a time.
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
    /// Ends all waits on this descriptor, here and at the peer. Data that has arrived can still be received.
    void shutdown() const noexcept;

  private:
    int number_ = -1;
};

/// One end of a connection. Errors of all sends and receives: PeerGone; TimedOut at the deadline, after which the
/// stream is out of step and must not be used.
class Socket : public Descriptor {
  public:
    Socket() = default;
    /// Takes ownership of a descriptor that accept(2) returned.
    explicit Socket(int number);
    /// Tries all addresses of the host in turn, repeatedly, until one accepts, since the peer may start later. Each
    /// address has `attempt` seconds to answer. A name look-up may exceed the deadline by the resolver's own timeout.
    /// Errors: Error if `address` is malformed; TimedOut with the last reason.
    static Socket connect(const std::string& address, Deadline until, double attempt = 5);

    /// Transfers the bytes that fit now without waiting, and returns their number, which may be 0. Errors: PeerGone.
    std::size_t send_some(std::span<const std::byte> bytes) const;
    std::size_t receive_some(std::span<std::byte> bytes) const;
    void send(std::span<const std::byte> bytes, Deadline until) const;
    void receive(std::span<std::byte> bytes, Deadline until) const;
    /// Sends the number of bytes, then the bytes.
    void send_frame(std::string_view bytes, Deadline until) const;
    /// Receives a frame. Errors: also Error for a frame of more than `most` bytes, before any is received.
    std::string receive_frame(std::size_t most, Deadline until) const;
};

/// A listening socket.
class Listener : public Descriptor {
  public:
    /// Listens at the first usable address of the host, or at all addresses of this machine without a host. Port 0
    /// selects any free port. Errors: Error with the system's reason.
    explicit Listener(const std::string& address);
    int port() const;
    /// Waits for a connection; none if the deadline has passed. Errors: PeerGone after `shutdown`; Error if this
    /// process can open no more descriptors.
    std::optional<Socket> accept(Deadline until) const;
};

}  // namespace headroom::dist
