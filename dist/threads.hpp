#pragma once
// Runs ranks as threads of one process, for tests of multi-process code.
//
//     dist::run_ranks(3, [](const std::shared_ptr<Group>& group) {
//         Context context = Context::cpu({.threads = 1, .group = group});
//         train(context);
//     });
#include <functional>
#include <memory>

#include <headroom/core/group.hpp>

namespace headroom::dist {

/// Calls `work` once per rank, each in its own thread, and waits for all. Every exchange is checked: ranks that
/// disagree about sizes get an Error. Errors: Error if `ranks` is below 1; the first error that leaves a rank's `work`.
/// The other ranks then get an Error in their exchanges instead of waiting forever.
void run_ranks(int ranks, const std::function<void(const std::shared_ptr<Group>&)>& work);

}  // namespace headroom::dist
