#pragma once
// The largest batch, sequence or image that fits: a size is doubled until there is no plan for it, and then bisected.
// For one size and several budgets, ask one `Planner`.
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

/// The largest size from `least` to `most` that `fits`, where whatever is smaller than one that fits does, too; empty
/// if none does. No answer: a size that is too small to be run (a norm wants more than one value), which says nothing
/// of larger ones. Asks about twice log2(most / least) times. Errors: Error unless 1 <= least <= most; those of `fits`.
std::optional<std::int64_t> largest_size(std::int64_t least, std::int64_t most,
                                         const std::function<std::optional<bool>(std::int64_t)>& fits);

struct Largest {
    std::int64_t size = 0;
    Plan plan;
};

/// The largest size from `least` to `most` whose workload has a plan that reserves at most `budget` bytes, and its
/// fastest one; empty if `least` has none. More must not take less. A workload that may be split is as small as one
/// sample: of batches, ask without `may_split`. Takes a search for each size that it tries. Errors: as `largest_size`
/// and `Planner`.
std::optional<Largest> largest(const Profile& profile, std::size_t budget,
                               const std::function<Workload(std::int64_t)>& workload_of_size, std::int64_t least,
                               std::int64_t most);

}  // namespace headroom::plan
