#pragma once
// Ranks that reach each other over TCP, for processes that a launcher without an MPI has started: all are connected to
// rank 0, which passes on what two others say. For what lies in the host's memory; `over_nccl` adds that of GPUs. An
// MPI, where there is one, has shorter ways between many ranks.
//
//     std::shared_ptr<Group> group = dist::hosts_over_tcp({.rank = 1, .ranks = 4, .address = "node0:29500"});
//     Context context = Context::cpu({.group = group});
#include <memory>
#include <string>

#include <headroom/core/group.hpp>

namespace headroom::dist {

/// Where the ranks of a job meet.
struct Rendezvous {
    int rank = 0, ranks = 1;
    /// "HOST:PORT", "[IPV6]:PORT": how the others reach rank 0. Rank 0 listens at this port while ranks join: at all
    /// addresses of its machine, or only at the host if that is localhost or an address such as 127.0.0.1.
    std::string address = {};
};

/// Returns on each rank when all have come. Errors: Error if they have not within `patience` seconds, in a line that
/// names those that are missing, or if the port is taken; that of an exchange if a rank ends or sends another number
/// of bytes than is expected of it, after which every exchange fails.
std::shared_ptr<Group> hosts_over_tcp(const Rendezvous& meeting, double patience = 300);

}  // namespace headroom::dist
