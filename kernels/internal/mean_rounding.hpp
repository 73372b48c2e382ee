#pragma once
// Where a mean must be corrected. The mean of equal numbers, summed and divided, is off by a few units; a norm would
// divide that rest by the root of its epsilon, and write numbers where the truth is 0.
//
//     if (is_rounding(squares, count, mean)) mean += sum(x - mean) / count;     // equal numbers: exactly their value
#include <limits>

#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

/// True if so many numbers deviate from their computed mean by no more than that may be off itself: by an epsilon for
/// each addition. `squares`: the sum of (x - mean)^2. False for NaN, and where nothing is off.
template <class C>
HEADROOM_DEVICE bool is_rounding(C squares, C count, C mean) {
    const C share = count * std::numeric_limits<C>::epsilon();
    return (squares > 0) & (squares <= count * share * share * mean * mean);
}

}  // namespace headroom::kernels
