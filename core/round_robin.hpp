#pragma once
// What takes turns: rank r of N has the things with the numbers r, r + N, r + 2 N and so on.
#include <cstdint>

namespace headroom {

/// How many of the things 0 to all - 1 are those of a rank.
constexpr std::int64_t round_robin_count(int rank, int ranks, std::int64_t all) {
    return (all - rank + ranks - 1) / ranks;
}

}  // namespace headroom
