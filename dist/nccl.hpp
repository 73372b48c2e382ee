#pragma once
// A group of ranks with a GPU each. NCCL transfers GPU memory while the GPUs compute; a second group transfers host
// memory, including NCCL's id. `World::cuda` makes one if several processes have a GPU each.
//
//     std::shared_ptr<Group> group = dist::over_nccl(hosts);
//     Context context = Context::cuda(0, {.group = group});
#include <memory>
#include <string>
#include <vector>

#include <headroom/core/group.hpp>

namespace headroom::dist {

struct NcclOptions {
    /// Seconds that all ranks have to join, which happens before their first exchange.
    double patience = 300;
    /// Libraries to try; the first that opens is used. Empty: the file that HEADROOM_NCCL names, or else libnccl.so.2
    /// on the loader's path, or where the build found it.
    std::vector<std::string> libraries = {};
};

class NcclGroup : public Group {
  public:
    /// NCCL's reason why pending exchanges will never finish; empty if there is none, and after `abort`. A watch thread
    /// calls it, since this rank's own thread may wait forever for a rank that has ended.
    virtual std::string failure() = 0;
    /// Ends all waits for NCCL; may be called from another thread. The results of pending exchanges are undefined, and
    /// later exchanges throw DeviceError.
    virtual void abort() = 0;

  protected:
    using Group::Group;
};

/// A group over the ranks of `hosts`, each with its own GPU (NCCL refuses two ranks on one). After a failure of NCCL
/// every exchange fails. The group closes once all ranks have released it, or immediately while an error is being
/// handled. Errors: DeviceError without NCCL, or if it is older than 2.14.
std::shared_ptr<NcclGroup> over_nccl(std::shared_ptr<Group> hosts, const NcclOptions& options = {});

}  // namespace headroom::dist
