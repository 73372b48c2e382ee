#pragma once
// Round-robin assignment: rank r of N owns items r, r + N, r + 2 N, ...
#include <cstdint>

namespace headroom {

/// The number of items among 0 to all - 1 that a rank owns.
constexpr std::int64_t round_robin_count(int rank, int ranks, std::int64_t all) {
    return (all - rank + ranks - 1) / ranks;
}

}  // namespace headroom
