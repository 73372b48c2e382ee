#include <headroom/dist/tcp.hpp>

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/dist/internal/joining.hpp>
#include <headroom/dist/internal/sockets.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

/// Each message begins with the number of its bytes.
using Count = std::uint64_t;

/// A message of this rank.
class Outgoing {
  public:
    Outgoing(const std::byte* data, std::size_t bytes) : count_(bytes), data_(data, bytes) {}

    /// What is still to go of one of its two parts; empty: it has gone.
    std::span<const std::byte> rest() const {
        const auto head = std::as_bytes(std::span(&count_, 1));
        return gone_ < head.size() ? head.subspan(gone_) : data_.subspan(gone_ - head.size());
    }
    void advance(std::size_t bytes) { gone_ += bytes; }

  private:
    Count count_;
    std::span<const std::byte> data_;
    std::size_t gone_ = 0;
};

/// A message to this rank.
class Incoming {
  public:
    Incoming(std::byte* data, std::size_t bytes) : data_(data, bytes) {}

    std::span<std::byte> rest() {
        const auto head = std::as_writable_bytes(std::span(&count_, 1));
        return came_ < head.size() ? head.subspan(came_) : data_.subspan(came_ - head.size());
    }
    void advance(std::size_t bytes) { came_ += bytes; }
    /// Whether its bytes are as many as are expected, as far as that is known.
    bool agrees() const { return came_ < sizeof(count_) || count_ == data_.size(); }
    Count count() const { return count_; }
    std::size_t expected() const { return data_.size(); }

  private:
    Count count_ = 0;
    std::span<std::byte> data_;
    std::size_t came_ = 0;
};

/// A message of one rank to another, which passes through rank 0 in pieces.
class Passing {
  public:
    void begin() { *this = Passing(std::move(piece_)); }
    bool done() const { return gone_ == came_ && left_ == 0; }
    /// Where its next piece goes; empty while the last one is here, and at the end.
    std::span<std::byte> room() {
        if (gone_ < came_) return {};
        piece_.resize(kPiece);
        return std::span(piece_).first(std::min<Count>(left_, kPiece));
    }
    void come(std::size_t bytes) {
        gone_ = 0;
        came_ = bytes;
        left_ -= bytes;
        if (head_ == sizeof(count_)) return;
        std::memcpy(reinterpret_cast<std::byte*>(&count_) + head_, piece_.data(), bytes);
        head_ += bytes;
        if (head_ == sizeof(count_)) left_ = count_;
    }
    std::span<const std::byte> rest() const { return std::span(piece_).subspan(gone_, came_ - gone_); }
    void advance(std::size_t bytes) { gone_ += bytes; }

    Passing() = default;

  private:
    static constexpr std::size_t kPiece = std::size_t{1} << 16;

    explicit Passing(std::vector<std::byte> piece) : piece_(std::move(piece)) {}

    std::vector<std::byte> piece_;
    std::size_t gone_ = 0, came_ = 0;  ///< of the piece
    Count count_ = 0, left_ = sizeof(Count);
    std::size_t head_ = 0;  ///< bytes of the count that have come
};

class TcpGroup final : public Group {
  public:
    /// `sockets`: of rank 0 by rank, of another rank that to rank 0.
    TcpGroup(int rank, int ranks, std::vector<Socket> sockets)
        : Group(rank, ranks), sockets_(std::move(sockets)), passing_(sockets_.size()) {}

  private:
    /// In step k rank r sends to rank r + k and receives from rank r - k. A pair of ranks is at work when both are at
    /// its step, as the pair of the least step always is: nobody waits in a circle, however little rank 0 keeps.
    struct Exchange {
        const std::byte* send;
        std::span<const Extent> sends;
        std::byte* receive;
        std::span<const Extent> receives;
        int rank, ranks;

        int to(int from, int step) const { return (from + step) % ranks; }
        int from(int to, int step) const { return (to + ranks - step) % ranks; }
        Outgoing outgoing(int step) const {
            const Extent part = step < ranks ? sends[static_cast<std::size_t>(to(rank, step))] : Extent{};
            return {send + part.offset, part.bytes};
        }
        Incoming incoming(int step) const {
            const Extent part = step < ranks ? receives[static_cast<std::size_t>(from(rank, step))] : Extent{};
            return {receive + part.offset, part.bytes};
        }
    };

    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        if (sockets_.empty()) throw Error(fmt::format("rank {}: an earlier exchange has failed", rank()));
        try {
            const auto own = static_cast<std::size_t>(rank());
            const Extent given = sends[own], taken = receives[own];
            if (given.bytes != taken.bytes)
                throw Error("group: a rank sends itself a different number of bytes than it receives");
            if (given.bytes > 0) std::memmove(receive + taken.offset, send + given.offset, given.bytes);
            const Exchange work{send, sends, receive, receives, rank(), ranks()};
            if (rank() == 0)
                exchange_of_all(work);
            else
                exchange_own(work);
        } catch (...) {
            sockets_.clear();  // the others need not wait for this one
            throw;
        }
    }

    void exchange_own(const Exchange& work) {
        int sent = 1, received = 1;  // steps
        Outgoing out = work.outgoing(sent);
        Incoming in = work.incoming(received);
        while (sent < ranks() || received < ranks()) {
            bool moved = false;
            for (; sent < ranks() && send_rest(out, 0); out = work.outgoing(++sent)) moved = true;
            for (; received < ranks() && receive_rest(in, 0, work.from(rank(), received));
                 in = work.incoming(++received))
                moved = true;
            if (moved) continue;
            const int events = (sent < ranks() ? POLLOUT : 0) | (received < ranks() ? POLLIN : 0);
            pollfd ready{sockets_[0].number(), static_cast<short>(events), 0};
            wait_for({&ready, 1}, kNoDeadline);
        }
    }

    /// On rank 0, which moves the messages of all.
    void exchange_of_all(const Exchange& work) {
        std::vector<int> sent(sockets_.size(), 1), received(sockets_.size(), 1);  // steps by rank
        Outgoing out = work.outgoing(1);
        Incoming in = work.incoming(1);
        for (Passing& message : passing_) message.begin();
        std::vector<pollfd> waiting;
        for (bool moved = true; moved || !waiting.empty();) {
            if (!moved) wait_for(waiting, kNoDeadline);
            moved = false;
            waiting.clear();
            for (int from = 0; from < ranks(); ++from) {
                const auto f = static_cast<std::size_t>(from);
                const int step = sent[f], to = work.to(from, step);
                const auto t = static_cast<std::size_t>(to);
                if (step == ranks() || received[t] != step) continue;
                const bool done = from == 0 ? send_rest(out, to)
                                  : to == 0 ? receive_rest(in, from, from)
                                            : pass(passing_[f], from, to);
                if (!done) {
                    const bool sends = from == 0 || !passing_[f].rest().empty();
                    waiting.push_back(sends ? pollfd{sockets_[t].number(), POLLOUT, 0}
                                            : pollfd{sockets_[f].number(), POLLIN, 0});
                    continue;
                }
                moved = true;
                ++sent[f];
                ++received[t];
                passing_[f].begin();
                if (from == 0) out = work.outgoing(sent[f]);
                if (to == 0) in = work.incoming(received[t]);
            }
        }
    }

    // Each returns whether all of the message has moved, or else what can move now.
    bool send_rest(Outgoing& message, int to) {
        while (!message.rest().empty()) {
            const std::size_t bytes = over(to, [&](const Socket& socket) { return socket.send_some(message.rest()); });
            if (bytes == 0) return false;
            message.advance(bytes);
        }
        return true;
    }
    /// `over_rank`: whose connection it comes by.
    bool receive_rest(Incoming& message, int over_rank, int from) {
        while (!message.rest().empty()) {
            const std::size_t bytes =
                over(over_rank, [&](const Socket& socket) { return socket.receive_some(message.rest()); });
            if (bytes == 0) return false;
            message.advance(bytes);
            if (!message.agrees())
                throw Error(fmt::format("rank {}: rank {} sent {} bytes where {} were expected", rank(), from,
                                        message.count(), message.expected()));
        }
        return true;
    }
    bool pass(Passing& message, int from, int to) {
        while (!message.done()) {
            const bool comes = message.rest().empty();
            const std::size_t bytes =
                comes ? over(from, [&](const Socket& socket) { return socket.receive_some(message.room()); })
                      : over(to, [&](const Socket& socket) { return socket.send_some(message.rest()); });
            if (bytes == 0) return false;
            if (comes)
                message.come(bytes);
            else
                message.advance(bytes);
        }
        return true;
    }
    template <class Work>
    std::size_t over(int other, const Work& work) {
        try {
            return work(sockets_[static_cast<std::size_t>(other)]);
        } catch (const PeerGone& error) {
            throw PeerGone(fmt::format("rank {}: rank {} has ended: {}", rank(), other, error.what()));
        }
    }

    std::vector<Socket> sockets_;   ///< none after an error
    std::vector<Passing> passing_;  ///< on rank 0, by sender
};

/// Names of one machine reach nothing else.
bool is_of_this_machine(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

std::shared_ptr<Group> hosts_over_tcp(const Rendezvous& meeting, double patience) {
    const Hello own{.rank = meeting.rank, .ranks = meeting.ranks};
    const Address address = Address::parse(meeting.address);
    std::vector<Socket> sockets;
    if (meeting.rank == 0) {
        const Address at{is_of_this_machine(address.host) ? address.host : "", address.port};
        sockets = receive_ranks(Listener(at.text()), own, patience);
    } else {
        sockets.push_back(connect_to_first(meeting.address, own, patience));
    }
    return std::make_shared<TcpGroup>(meeting.rank, meeting.ranks, std::move(sockets));
}

}  // namespace headroom::dist
