#pragma once
// Finds how much scratch a program can use without raising its peak: memory that is free whenever an op needs scratch.
// A rehearsal finds it before the run. On a CPU the budget only decides whether the forward pass of
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

/// Returns a `ComputeOptions::scratch_budget` with which the peak of `program` stays within `most` bytes. Without
/// `most`, the bound is the peak under the profile's own budget, and at least that budget is returned. The result is in
/// whole MiB and found by bisection. A larger, untried budget may fit, too, because a budget can also lower the peak,
/// where `linear_cross_entropy` keeps gradients instead of inputs. Runs the program, which takes a dry context and does
/// its first steps, about 20 times. Another budget may give different bits: resume a training with the same budget.
/// Errors: OutOfMemory if the program exceeds the profile's memory limit with its own budget; Error if it needs more
/// than `most` with every budget tried, including 0; errors of `program`.
std::size_t fit_scratch_budget(const Profile& profile, const std::function<void(Context&)>& program,
                               std::optional<std::size_t> most = std::nullopt);

}  // namespace headroom
