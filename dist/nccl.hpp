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
    /// The first that can be opened; empty: the file that HEADROOM_NCCL names, or else libnccl.so.2 on the loader's
    /// path, or where the build found it.
    std::vector<std::string> libraries = {};
};

class NcclGroup : public Group {
  public:
    /// For a watch in another thread, while this rank's own may wait for exchanges that a rank which has ended keeps
    /// for ever: NCCL's reason why they will not be done; empty if it knows of none, and after `abort`.
    virtual std::string failure() = 0;
    /// Ends what waits for NCCL, from another thread. What exchanges were to bring is undefined then, and later ones
    /// are DeviceErrors.
    virtual void abort() = 0;

  protected:
    using Group::Group;
};

/// The ranks of `hosts`, each with a GPU of its own (NCCL refuses two on one). Once NCCL has failed, so does every
/// exchange. Ends in an orderly way when all ranks let go of it, and at once where an error is on its way. Errors:
/// DeviceError without NCCL, or for one older than 2.14.
std::shared_ptr<NcclGroup> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options = {});

}  // namespace headroom::dist
