#pragma once
// The processors on which a process may run, and the number of ranks that share them.
//
//     const Processors allowed = Processors::allowed();
//     const int threads = std::max(1, allowed.count() / allowed.sharing(*group));
#include <sched.h>

#include <string>

#include <headroom/core/group.hpp>

namespace headroom::dist {

struct Processors {
    std::string machine;  ///< the machine of these processors
    cpu_set_t set;

    /// The processors in this process's affinity mask.
    static Processors allowed();
    static int of_machine();
    /// At least 1.
    int count() const;
    /// The number of ranks, including this one, that may run on at least one of these processors. All ranks must call
    /// it.
    int sharing(Group& hosts) const;
};

}  // namespace headroom::dist
