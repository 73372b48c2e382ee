#pragma once
// Ranks that reach each other's GPUs: NCCL moves what lies there, beside what the GPUs compute, and another group
// what lies in the host's memory, from NCCL's id on. `World::cuda` makes one where several processes have a GPU
// each.
//
//     std::shared_ptr<Group> group = dist::over_nccl(hosts);
//     Context context = Context::cuda(0, {.group = group});
#include <memory>
#include <string>
#include <vector>

#include <headroom/core/group.hpp>

namespace headroom::dist {

struct NcclOptions {
    /// Seconds that all ranks have for their first exchange, before which they join.
    double patience = 300;
    /// The first that can be opened; empty: what HEADROOM_NCCL names, or libnccl.so.2.
    std::vector<std::string> libraries = {};
};

/// The ranks of `hosts`, each with a GPU of its own (NCCL refuses two on one). Once NCCL has failed, so does every
/// exchange. Ends in an orderly way when all ranks let go of it, and at once where an error is on its way. Errors:
/// DeviceError without NCCL, or for one older than 2.14.
std::shared_ptr<Group> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options = {});

/// Where processes meet that a launcher has started without an MPI.
struct Rendezvous {
    int rank = 0, ranks = 1;
    std::string address;  ///< "HOST:PORT" of rank 0, whose port nobody else has
};

/// Hosts that have no other way to each other than their GPUs: what they say goes through 2 MiB of the memory of `gpu`,
/// the device with this number. Returns when all ranks have come. Not while other threads read the environment, where
/// NCCL_COMM_ID is set for so long, and not there afterwards. Errors: as `over_nccl`, and of its first exchange.
std::shared_ptr<Group> hosts_over_nccl(const Rendezvous& meeting, int gpu, const NcclOptions& options = {});

}  // namespace headroom::dist
