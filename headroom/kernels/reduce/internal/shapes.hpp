#pragma once
// Sizes that the CPU side and the GPU side of reduce.hpp share, from shapes and dtypes. Internal to reduce/.
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline double elements_per_output(const View& x, const View& y) {
    return static_cast<double>(x.numel()) / static_cast<double>(y.numel());
}

}  // namespace headroom::kernels
