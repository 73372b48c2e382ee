#include <headroom/plan/largest.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::plan {

std::optional<std::int64_t> largest_size(std::int64_t least, std::int64_t most,
                                         const std::function<std::optional<bool>(std::int64_t)>& fits) {
    if (least < 1 || most < least)
        throw Error(fmt::format("largest_size: the range must satisfy 1 <= least <= most, got {} to {}", least, most));
    std::optional<std::int64_t> found;
    const auto reaches = [&](std::int64_t size) {
        const std::optional<bool> answer = fits(size);
        if (answer == true) found = size;
        return answer.value_or(true);
    };
    if (!reaches(least)) return std::nullopt;
    std::int64_t fitting = least, too_large = most;
    while (fitting < most) {
        const std::int64_t next = fitting <= most / 2 ? 2 * fitting : most;
        if (!reaches(next)) {
            too_large = next;
            break;
        }
        fitting = next;
    }
    while (too_large - fitting > 1) {
        const std::int64_t middle = std::midpoint(fitting, too_large);
        (reaches(middle) ? fitting : too_large) = middle;
    }
    return found;
}

std::optional<Largest> largest(const Profile& profile, std::size_t budget,
                               const std::function<Workload(std::int64_t)>& workload_of_size, std::int64_t least,
                               std::int64_t most) {
    Largest found;
    const auto fits = [&](std::int64_t size) {
        Planner planner(profile, workload_of_size(size));
        if (planner.floor_bytes() > budget) return false;
        found = {size, planner.fit(budget)};
        return true;
    };
    if (!largest_size(least, most, fits)) return std::nullopt;
    return found;  // the last one that fitted is the largest
}

}  // namespace headroom::plan
