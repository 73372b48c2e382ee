#pragma once
// A group over TCP, for processes started by a launcher without MPI. All ranks connect to rank 0, which forwards
// messages between other ranks. It transfers host memory; `over_nccl` adds GPU memory. Prefer MPI for many ranks, since
// there messages need not pass through rank 0.
//
//     std::shared_ptr<Group> group = dist::hosts_over_tcp({.rank = 1, .ranks = 4, .address = "node0:29500"});
//     Context context = Context::cpu({.group = group});
#include <memory>
#include <string>

#include <headroom/core/group.hpp>

namespace headroom::dist {

/// The meeting point of a job's ranks.
struct Rendezvous {
    int rank = 0, ranks = 1;
    /// "HOST:PORT" or "[IPV6]:PORT": the address of rank 0. Rank 0 listens at this port while ranks join: at all
    /// addresses of its machine, or only at HOST if it is localhost or a loopback address such as 127.0.0.1.
    std::string address = {};
};

/// Returns on each rank once all have joined. Errors: Error if some have not joined within `patience` seconds, naming
/// them, or if the port is in use. An exchange throws Error if a rank ends or sends an unexpected number of bytes;
/// every later exchange then fails.
std::shared_ptr<Group> hosts_over_tcp(const Rendezvous& meeting, double patience = 300);

}  // namespace headroom::dist
