#pragma once
// The factor of a norm. A row whose variance overflows has diverged; 1 / sqrt(infinity) would make it 0 and hide that,
// so the factor is NaN, as in PyTorch's layer and group norm.
//
//     const float rstd = rstd_of(squares / count + epsilon);
#include <cmath>

#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

/// 1 / sqrt(x); NaN for infinite x.
template <class C>
HEADROOM_DEVICE C rstd_of(C x) {
    return C{1} / std::sqrt(x) + (x - x);
}

}  // namespace headroom::kernels
