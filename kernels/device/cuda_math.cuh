#pragma once
// Operations that a GPU has units for but CUDA has no functions for. Only kernels/math.hpp includes it, for nvcc; the
// versions for other compilers are there.
#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels::device {

/// 1 / x within one unit in the last place (PTX ISA, rcp.approx.ftz.f32); 0 where |x| > 2^126. One instruction; a
/// correctly rounded division takes 15.
HEADROOM_DEVICE float approximate_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace headroom::kernels::device
