#include <headroom/dist/internal/joining.hpp>

#include <poll.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headroom::dist {

namespace {

/// As `Hello` is sent, in this machine's order of bytes: another one does not know the version.
struct Wire {
    char magic[8] = {'h', 'e', 'a', 'd', 'r', 'o', 'o', 'm'};
    std::uint32_t version = 1;
    std::int32_t rank = 0, ranks = 0, unused = 0;
    std::uint64_t job = 0;
};
static_assert(sizeof(Wire) == 32);

/// Answers of rank 0 begin with it; what follows is empty, or why not.
constexpr std::string_view kGreeting = "headroom:";
constexpr std::size_t kMostAnswer = 4096;
/// For the answer of rank 0, whose time may begin and end later.
constexpr std::chrono::seconds kGrace{10};
constexpr Deadline kAtOnce = Deadline::min();

/// A connection of which no whole hello has come.
struct Stranger {
    Socket socket;
    Wire said;
    std::size_t bytes = 0;
};

/// Of rank 0.
class Reception {
  public:
    Reception(const Listener& listener, const Hello& own)
        : listener_(listener), own_(own), joined_(static_cast<std::size_t>(own.ranks)) {}

    std::vector<Socket> run(double patience) {
        const Deadline until = within(patience);
        try {
            // What has come by the deadline is taken; who connects again and again does not put it off.
            std::size_t late = 0;
            while (!missing().empty()) {
                if (Deadline::clock::now() > until) ++late;
                if (late > 4 * (kMostStrangers + joined_.size()) || !step(until))
                    throw TimedOut(fmt::format("rank{} {} of {} {} not joined within {:g} s",
                                               missing().size() == 1 ? "" : "s", fmt::join(missing(), ", "), own_.ranks,
                                               missing().size() == 1 ? "has" : "have", patience));
            }
            tell_all("");
        } catch (const Error& error) {
            for (const Socket& rank : joined_) {
                try {
                    if (rank.is_open()) answer(rank, error.what());
                } catch (const Error&) {  // it has ended, too
                }
            }
            throw;
        }
        return std::move(joined_);
    }

  private:
    std::vector<int> missing() const {
        std::vector<int> ranks;
        for (int r = 1; r < own_.ranks; ++r) {
            if (!joined_[static_cast<std::size_t>(r)].is_open()) ranks.push_back(r);
        }
        return ranks;
    }
    static void answer(const Socket& socket, const std::string& text) {
        socket.send_frame(std::string(kGreeting) + text.substr(0, kMostAnswer - kGreeting.size()), kAtOnce);
    }
    void tell_all(const std::string& text) {
        for (std::size_t r = 1; r < joined_.size(); ++r) {
            try {
                answer(joined_[r], text);
            } catch (const Error&) {
                throw PeerGone(fmt::format("rank {} ended while the ranks were joining", r));
            }
        }
    }

    /// Takes what has come; false if nothing comes until then.
    bool step(Deadline until) {
        std::vector<pollfd> waiting{{listener_.number(), POLLIN, 0}};
        for (const Socket& rank : joined_) waiting.push_back({rank.number(), POLLIN, 0});  // below 0: none
        for (const Stranger& stranger : strangers_) waiting.push_back({stranger.socket.number(), POLLIN, 0});
        if (!wait_for(waiting, until)) return false;
        for (std::size_t r = 1; r < joined_.size(); ++r) {  // which say nothing before they are answered
            if (waiting[1 + r].revents) throw PeerGone(fmt::format("rank {} ended while the ranks were joining", r));
        }
        std::vector<Stranger> remain;
        for (std::size_t i = 0; i < strangers_.size(); ++i) {
            if (!waiting[1 + joined_.size() + i].revents || listen_to(strangers_[i]))
                remain.push_back(std::move(strangers_[i]));
        }
        strangers_ = std::move(remain);
        if (waiting[0].revents) accept();
        return true;
    }
    void accept() {
        try {
            if (std::optional<Socket> socket = listener_.accept(kAtOnce))
                strangers_.push_back({.socket = std::move(*socket), .said = {}});
        } catch (const PeerGone&) {
            throw;
        } catch (const Error&) {  // no more descriptors
            if (strangers_.empty()) throw;
            strangers_.erase(strangers_.begin());
        }
        if (strangers_.size() > kMostStrangers) strangers_.erase(strangers_.begin());
    }
    /// Whether it remains one.
    bool listen_to(Stranger& stranger) {
        try {
            const auto said = std::as_writable_bytes(std::span(&stranger.said, 1));
            stranger.bytes += stranger.socket.receive_some(said.subspan(stranger.bytes));
            if (stranger.bytes < said.size()) return true;
            if (std::memcmp(stranger.said.magic, Wire().magic, sizeof(Wire().magic)) != 0) return false;
            const std::string why = refusal(stranger.said);
            answer(stranger.socket, why);
            if (why.empty()) joined_[static_cast<std::size_t>(stranger.said.rank)] = std::move(stranger.socket);
        } catch (const Error&) {  // it has ended
        }
        return false;
    }
    std::string refusal(const Wire& said) const {
        if (said.version != Wire().version) return "rank 0 runs another version of Headroom";
        if (said.job != own_.job) return "rank 0 belongs to another job";
        if (said.ranks != own_.ranks)
            return fmt::format("the job of rank 0 has {} ranks, not {}", own_.ranks, said.ranks);
        if (said.rank < 1 || said.rank >= own_.ranks) return fmt::format("no rank {} can join", said.rank);
        if (joined_[static_cast<std::size_t>(said.rank)].is_open())
            return fmt::format("another process has joined as rank {}", said.rank);
        return "";
    }

    const Listener& listener_;
    const Hello own_;
    std::vector<Socket> joined_;
    std::vector<Stranger> strangers_;
};

/// Of rank 0: empty, or why not.
std::string answer_of(const Socket& first, const std::string& address, Deadline until) {
    std::string answer;
    try {
        answer = first.receive_frame(kMostAnswer, until);
    } catch (const PeerGone&) {
        throw;
    } catch (const TimedOut&) {
        throw;
    } catch (const Error&) {  // too long
    }
    if (!answer.starts_with(kGreeting)) throw Error(fmt::format("another program answers at {}", address));
    return answer.substr(kGreeting.size());
}

}  // namespace

std::string Hello::bytes() const {
    const Wire wire{.rank = rank, .ranks = ranks, .job = job};
    return {reinterpret_cast<const char*>(&wire), sizeof(wire)};
}

std::vector<Socket> receive_ranks(const Listener& listener, const Hello& own, double patience) {
    return Reception(listener, own).run(patience);
}

Socket connect_to_first(const std::string& address, const Hello& own, double patience) {
    const Deadline until = within(patience);
    const std::string hello = own.bytes();
    for (bool joined = false;;) {
        try {
            Socket first = Socket::connect(address, until);
            first.send(std::as_bytes(std::span(hello)), until);
            std::string why = answer_of(first, address, until);
            joined = why.empty();
            if (joined) why = answer_of(first, address, until + kGrace);
            if (!why.empty()) throw Error(fmt::format("rank {} can't join: {}", own.rank, why));
            return first;
        } catch (const TimedOut& error) {
            throw TimedOut(fmt::format("rank {} can't join within {:g} s: {}", own.rank, patience,
                                       joined ? "rank 0 has not said that all ranks joined" : error.what()));
        } catch (const PeerGone& error) {
            if (joined || std::chrono::steady_clock::now() > until)
                throw PeerGone(
                    fmt::format("rank {} can't join: rank 0 at {} has ended: {}", own.rank, address, error.what()));
        }
        // Something else may still have the port, or rank 0 has too many strangers.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

}  // namespace headroom::dist
