#pragma once
// Finds the largest batch, sequence or image that fits: the size is doubled until no plan fits, then bisected. For one
// size and several budgets, use one `Planner`.
//
//     const auto of_batch = [&](std::int64_t batch) { return plan::Workload{.run = run, .division = {batch}}; };
//     if (const auto found = plan::largest(profile, 8'000'000'000, of_batch, 1, 4096))
//         fmt::print("{} samples: {}\n", found->size, found->plan.to_string());
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <headroom/plan/planner.hpp>

namespace headroom::plan {

/// The largest size in [least, most] for which `fits` is true; empty if there is none. `fits` must be monotonic: if a
/// size fits, so do all smaller ones. If a size is too small to run (a norm needs more than one value), `fits` returns
/// no value, which says nothing about larger sizes. Calls `fits` about 2 log2(most / least) times. Errors: Error unless
/// 1 <= least <= most; errors of `fits`.
std::optional<std::int64_t> largest_size(std::int64_t least, std::int64_t most,
                                         const std::function<std::optional<bool>(std::int64_t)>& fits);

struct Largest {
    std::int64_t size = 0;
    Plan plan;
};

/// The largest size in [least, most] whose workload has a plan that reserves at most `budget` bytes, with the fastest
/// such plan; empty if `least` has none. Memory must not fall as the size grows. To find the largest batch, leave
/// `may_split` unset, because a workload that may be split fits if one sample fits. Runs one search per size tried.
/// Errors: as `largest_size` and `Planner`.
std::optional<Largest> largest(const Profile& profile, std::size_t budget,
                               const std::function<Workload(std::int64_t)>& workload_of_size, std::int64_t least,
                               std::int64_t most);

}  // namespace headroom::plan
