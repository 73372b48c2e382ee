#pragma once
// What the CPU's side and the GPU's side of reduce.hpp work out alike, from shapes and dtypes. Internal to reduce/.
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

inline double elements_per_output(const View& x, const View& y) {
    return static_cast<double>(x.numel()) / static_cast<double>(y.numel());
}

}  // namespace headroom::kernels
