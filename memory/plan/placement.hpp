#pragma once
// Static placement: given when each request of a training step is live, where to put it so that all of them fit into
// as little memory as possible. This is offline dynamic storage allocation, NP-hard (surveyed by A. Buchsbaum et al.,
// "OPT versus LOAD in dynamic storage allocation", 2003; of late M. Maas et al., "TelaMalloc", 2023, and M. Moffitt,
// "MiniMalloc", 2023); steps of training are easy instances: what is allocated last in the forward pass is freed first
// in the backward pass. Not for requests as they come: that is the allocator's work. Internal to memory/plan/.
//
//     const Lifetime lifetimes[] = {{4096, 0, 2}, {64, 1, 3}, {4096, 2, 3}};
//     const Placement placement = place(lifetimes);
//     fmt::print("{} bytes, {} needed at least\n", placement.height, max_live(lifetimes));   // 4160, 4160
#include <cstddef>
#include <span>
#include <vector>

#include <headroom/memory/plan/lifetime.hpp>

namespace headroom {

struct Placement {
    std::vector<std::size_t> offsets;  ///< bytes, by request; sums of sizes: aligned as the sizes are
    std::size_t height = 0;            ///< bytes: the end of the highest request
};

/// Places all; requests that are live at once don't overlap. The same lifetimes give the same offsets on any machine.
/// Builds layouts from the bottom up (see skyline.hpp), first with the order of preference that suits stacks (longest
/// lifetime first) and some others. If none reaches `max_live`, the order is improved where it failed: requests around
/// the stretch that grew too high are preferred from then on (D. Joslin and D. Clements, "Squeaky wheel optimization",
/// 1999). It ends when that has not helped for a while, or after so many steps as take half a second; steps are
/// counted, time is not taken (bench/memory/placement_bench.cpp measures it). Errors: as `max_live`.
Placement place(std::span<const Lifetime> lifetimes);

}  // namespace headroom
