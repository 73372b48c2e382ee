#pragma once
// Operations that a GPU has units and CUDA no functions for. Only kernels/math.hpp includes it, for nvcc; its twin for
// other compilers is there.
#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels::device {

/// 1 / x within one unit in the last place (PTX ISA, rcp.approx.ftz.f32); 0 where |x| > 2^126. One instruction, where a
/// division rounded to nearest takes 15.
HEADROOM_DEVICE float approximate_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace headroom::kernels::device
