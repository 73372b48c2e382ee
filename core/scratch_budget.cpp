#include <headroom/core/scratch_budget.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <headroom/core/rehearsal.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom {

namespace {

constexpr std::size_t kStep = std::size_t{1} << 20;

std::size_t peak_of(Profile profile, const std::function<void(Context&)>& program, std::size_t budget) {
    profile.compute.scratch_budget = budget;
    return rehearse(profile, program).peak.allocated;
}

}  // namespace

std::size_t fit_scratch_budget(const Profile& profile, const std::function<void(Context&)>& program,
                               std::optional<std::size_t> most) {
    const std::size_t own = profile.compute.scratch_budget;
    const std::size_t limit = most ? *most : peak_of(profile, program, own);
    const auto fits = [&](std::size_t budget) {
        try {
            return peak_of(profile, program, budget) <= limit;
        } catch (const OutOfMemory&) {
            return false;
        }
    };
    const std::size_t least = most ? 0 : own;
    // In steps, from above, where peaks may be lower; no op can use a budget above the limit.
    std::size_t fitting = limit / kStep, too_large = fitting + 1;
    while (fitting > least / kStep && !fits(fitting * kStep)) {
        too_large = fitting;
        fitting = std::max(fitting / 2, least / kStep);
    }
    if (most && fitting == 0 && !fits(0)) {
        throw Error(fmt::format(
            "fit_scratch_budget: the program allocates more than {} bytes with every budget that was tried", limit));
    }
    while (fitting + 1 < too_large) {
        const std::size_t middle = std::midpoint(fitting, too_large);
        (fits(middle * kStep) ? fitting : too_large) = middle;
    }
    return std::max(least, fitting * kStep);
}

}  // namespace headroom
