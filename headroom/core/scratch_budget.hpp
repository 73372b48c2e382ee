#pragma once
// How much scratch a program may take: as much as it has free at those moments anyway. A rehearsal tells before the
// run. On a CPU the budget changes nothing.
//
//     Profile profile = Profile::gpu(141'000'000'000);
//     profile.compute.scratch_budget = fit_scratch_budget(profile, [](Context& rehearsal) { train(rehearsal, 2); });
//     Context context = Context::cuda(0, {.compute = profile.compute});
#include <cstddef>
#include <functional>
#include <optional>

#include <headroom/core/context.hpp>

namespace headroom {

/// The largest `ComputeOptions::scratch_budget`, in whole MiB, with which `program` allocates no more than `most`
/// bytes at its peak; without `most`, no more than with the profile's own budget. Runs the program, which takes a dry
/// context and its first steps, some 20 times. Other budgets may give other bits: a training that is resumed needs the
/// same one again. Errors: OutOfMemory if the program exceeds the profile's memory limit with its own budget; Error if
/// it needs more than `most` even without a budget; what `program` throws.
std::size_t fit_scratch_budget(const Profile& profile, const std::function<void(Context&)>& program,
                               std::optional<std::size_t> most = std::nullopt);

}  // namespace headroom
