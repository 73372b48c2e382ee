#pragma once
// Assigns gradients to ranks for the reduce-scatter, and for predictions of its memory.
//
//     for (const GradientSegment& segment : parameters.segments())
//         elements += optim::summed_shares(parameters, segment, ranks)[rank].count;
#include <vector>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

/// By rank, the range of a segment's gradients that the rank sums. With sharded state it is the range whose state the
/// rank owns; otherwise the segment is divided evenly.
std::vector<ShardRange> summed_shares(const Parameters& parameters, const GradientSegment& segment, int ranks);

}  // namespace headroom::optim
