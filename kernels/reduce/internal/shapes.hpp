#pragma once
// Sizes that the CPU side and the GPU side of reduce.hpp share, from shapes and dtypes.
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline double elements_per_output(const View& x, const View& y) {
    return static_cast<double>(x.numel()) / static_cast<double>(y.numel());
}

/// By which a sum of squared deviations is divided: 0 where the correction is at least n, as torch.var has it.
inline double degrees_of_freedom(const View& x, const View& y, double correction) {
    const double left = elements_per_output(x, y) - correction;
    return left < 0 ? 0 : left;
}

}  // namespace headroom::kernels
