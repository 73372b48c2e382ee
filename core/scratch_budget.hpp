#pragma once
// The scratch that a program may take without a higher peak, because the memory is free at those moments anyway. A
// rehearsal finds it before the run. On a CPU the budget decides only whether the forward pass of
// `linear_cross_entropy` keeps gradients.
//
//     Profile profile = Profile::gpu(141'000'000'000);
//     profile.compute.scratch_budget = fit_scratch_budget(profile, [](Context& rehearsal) { train(rehearsal, 2); });
//     Context context = Context::cuda(0, {.compute = profile.compute});
#include <cstddef>
#include <functional>
#include <optional>

#include <headroom/core/context.hpp>

namespace headroom {

/// A `ComputeOptions::scratch_budget` with which `program` allocates no more than `most` bytes at its peak; without
/// `most`, no more than with the profile's own budget, which is the least that is returned. In whole MiB, and found by
/// halving: a larger one that was not tried may fit, too, since a budget can also lower a peak, where
/// `linear_cross_entropy` keeps gradients in place of inputs. Runs the program, which takes a dry context and its first
/// steps, some 20 times. Other budgets may give other bits: a training that is resumed needs the same one again.
/// Errors: OutOfMemory if the program exceeds the profile's memory limit with its own budget; Error if it needs more
/// than `most` with all budgets that were tried, including 0; errors of `program`.
std::size_t fit_scratch_budget(const Profile& profile, const std::function<void(Context&)>& program,
                               std::optional<std::size_t> most = std::nullopt);

}  // namespace headroom
