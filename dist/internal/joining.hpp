#pragma once
// How the ranks of a job find each other: rank 0 listens; the others connect and identify themselves. Other connections
// to that port (a scanner, another job, a silent client) are dropped and delay no rank.
//
//     const Hello own{.rank = rank, .ranks = 4};
//     if (rank == 0) sockets = receive_ranks(Listener(":29500"), own, /*patience=*/300);
//     if (rank != 0) first = connect_to_first("node0:29500", own, /*patience=*/300);
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/dist/internal/sockets.hpp>

namespace headroom::dist {

/// A process's introduction.
struct Hello {
    int rank = 0, ranks = 1;
    std::uint64_t job = 0;  ///< the same on all ranks; differs for each purpose that a job listens for

    /// The wire format: a magic number, the protocol's version, and these fields.
    std::string bytes() const;
};

/// Rank 0 keeps at most this many unidentified connections; it drops the oldest first.
inline constexpr std::size_t kMostStrangers = 128;

/// On rank 0: connections to the other ranks, by rank; its own entry is not open. Returns when all ranks have joined,
/// and notifies them. Rejects a second process with the same rank, or one of another job, with a message. Errors:
/// TimedOut after `patience` seconds, on all ranks that have joined, naming those that have not; PeerGone if a rank has
/// ended.
std::vector<Socket> receive_ranks(const Listener& listener, const Hello& own, double patience);
/// On another rank: connects to rank 0 at `address`, "HOST:PORT", and returns once all ranks have joined. Errors:
/// TimedOut if rank 0 can't be reached for `patience` seconds; Error with rank 0's message if it rejects this process;
/// PeerGone if rank 0 has ended.
Socket connect_to_first(const std::string& address, const Hello& own, double patience);

}  // namespace headroom::dist
