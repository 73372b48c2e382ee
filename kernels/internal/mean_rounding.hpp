#pragma once
// Detects a mean that needs correction. The computed mean of equal numbers is off by a few units; a norm would divide
// that error by the square root of its epsilon and return nonzero values where the result should be 0.
//
//     if (is_rounding(squares, count, mean)) mean += sum(x - mean) / count;     // equal numbers: exactly their value
#include <limits>

#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

/// True if `count` numbers deviate from their computed mean by no more than the mean's own error: one epsilon per
/// addition. `squares`: the sum of (x - mean)^2. False for NaN, and if nothing is off.
template <class C>
HEADROOM_DEVICE bool is_rounding(C squares, C count, C mean) {
    const C share = count * std::numeric_limits<C>::epsilon();
    return (squares > 0) & (squares <= count * share * share * mean * mean);
}

}  // namespace headroom::kernels
