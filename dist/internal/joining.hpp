#pragma once
// How the ranks of a job find each other: rank 0 listens, all others connect to it and say who they are. Whatever else
// connects to that port (a scanner, another job, a connection that says nothing) is dropped and keeps nobody waiting.
//
//     const Hello own{.rank = rank, .ranks = 4};
//     if (rank == 0) sockets = receive_ranks(Listener(":29500"), own, /*patience=*/300);
//     if (rank != 0) first = connect_to_first("node0:29500", own, /*patience=*/300);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/dist/internal/sockets.hpp>

namespace headroom::dist {

/// What a process says of itself.
struct Hello {
    int rank = 0, ranks = 1;
    std::uint64_t job = 0;  ///< the same on all ranks; another one for what else a job listens for

    /// As it is sent: a magic number, the version of all that is sent, and these.
    std::string bytes() const;
};

/// Connections that rank 0 keeps while it knows nothing of them: the oldest goes first.
inline constexpr std::size_t kMostStrangers = 128;

/// On rank 0: a connection to each other rank, by rank; that to itself is not open. Returns when all ranks have come,
/// and tells them. A second process of a rank, and one of another job, is refused in a line. Errors: TimedOut, on all
/// ranks that have come, after `patience` seconds, in a line that names those that have not; PeerGone if one has ended.
std::vector<Socket> receive_ranks(const Listener& listener, const Hello& own, double patience);
/// On another rank: a connection to rank 0 at `address`, "HOST:PORT", once all ranks have come. Errors: TimedOut if
/// rank 0 can't be reached for `patience` seconds; Error of what rank 0 says or refuses; PeerGone if it has ended.
Socket connect_to_first(const std::string& address, const Hello& own, double patience);

}  // namespace headroom::dist
