#pragma once
// Which rank sums which of the gradients, in an exchange and wherever its memory is predicted.
//
//     for (const GradientSegment& segment : parameters.segments())
//         elements += optim::summed_shares(parameters, segment, ranks)[rank].count;
#include <vector>

#include <headroom/core/parameters.hpp>

namespace headroom::optim {

/// The share of a segment's gradients that each of the ranks sums: the one whose state it has; where each rank has all
/// state, one by the segment's size.
std::vector<ShardRange> summed_shares(const Parameters& parameters, const GradientSegment& segment, int ranks);

}  // namespace headroom::optim
