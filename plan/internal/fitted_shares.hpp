#pragma once
// What a pass of an op takes, as a sum of parts that are fitted to measured passes.
#include <array>
#include <utility>
#include <vector>

namespace headroom::plan {

/// Seconds for products, for traffic, and for any op.
using Parts = std::array<double, 3>;

/// What passes took, as multiples of their parts by rates: not negative, with the least sum of squared relative errors.
/// What times can't tell apart keeps its share of the time by rates (ridge regression towards it; Hoerl and Kennard
/// 1970), the more so the more times are off after the fit before. Unless there are passes of one shape with
/// `several_batches`, the share for any op stays by rates: in shapes of one batch, operations may be the same
/// everywhere. Passes of no seconds count for nothing; 1, 1, 1 without any.
Parts fitted_shares(const std::vector<std::pair<Parts, double>>& passes, bool several_batches);

}  // namespace headroom::plan
