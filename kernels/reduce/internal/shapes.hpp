#pragma once
// Sizes that the CPU and GPU sides of reduce.hpp share, from shapes and dtypes.
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline double elements_per_output(const View& x, const View& y) {
    return static_cast<double>(x.numel()) / static_cast<double>(y.numel());
}

/// The divisor of a sum of squared deviations: 0 if the correction is at least n, as in torch.var.
inline double degrees_of_freedom(const View& x, const View& y, double correction) {
    const double left = elements_per_output(x, y) - correction;
    return left < 0 ? 0 : left;
}

}  // namespace headroom::kernels
