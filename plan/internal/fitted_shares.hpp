#pragma once
// Fits the time of an op's pass as a sum of parts to measured passes.
#include <array>
#include <utility>
#include <vector>

namespace headroom::plan {

/// Seconds for products, for memory traffic, and per op.
using Parts = std::array<double, 3>;

/// Fits measured times as multiples of the parts that assumed rates give. The multiples are not negative and have the
/// least sum of squared relative errors. Parts that the times do not separate keep their share of the time under
/// assumed rates (ridge regression towards it; Hoerl and Kennard 1970); the pull is stronger the larger the errors of
/// the previous fit. Without `several_batches` of one shape, the part per op stays at assumed rates: with one batch
/// size, all passes may have the same operations. Passes of 0 seconds are ignored; without any pass the result is 1, 1,
/// 1.
Parts fitted_shares(const std::vector<std::pair<Parts, double>>& passes, bool several_batches);

}  // namespace headroom::plan
