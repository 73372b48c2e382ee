#pragma once
// The processors on which a process may run, and which ranks share them.
//
//     const Processors allowed = Processors::allowed();
//     const int threads = std::max(1, allowed.count() / allowed.sharing(*group));
#include <sched.h>

#include <string>

#include <headroom/core/group.hpp>

namespace headroom::dist {

struct Processors {
    std::string machine;  ///< that they are of
    cpu_set_t set;

    /// Of this process, by its affinity.
    static Processors allowed();
    static int of_machine();
    /// At least 1.
    int count() const;
    /// Of the ranks, this one included, those that may run on one of them, too. All ranks call it.
    int sharing(Group& hosts) const;
};

}  // namespace headroom::dist
