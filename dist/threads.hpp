#pragma once
// Ranks as threads of one process, for tests of what several processes do.
//
//     dist::run_ranks(3, [](const std::shared_ptr<Group>& group) {
//         Context context = Context::cpu({.threads = 1, .group = group});
//         train(context);
//     });
#include <functional>
#include <memory>

#include <headroom/core/group.hpp>

namespace headroom::dist {

/// Calls `work` once per rank, each in a thread of its own, and waits for all. Each exchange is checked: ranks that
/// disagree about sizes get an Error. Errors: Error unless there is a rank; the first error that left a rank: the
/// others, which would wait for it, get an Error in their exchanges.
void run_ranks(int ranks, const std::function<void(const std::shared_ptr<Group>&)>& work);

}  // namespace headroom::dist
