#pragma once
// The values that kernels move and compute with: short vectors of elements as stored in memory, and the same as f32.
// They live in registers, so don't use them for whole rows.
//
//     Floats<8> x = block.load_floats<8>(row + i);      // T is float, f16 or bf16
//     for (int k = 0; k < 8; ++k) x[k] *= scale;
//     block.store_floats(row + i, x);                   // rounded to nearest, once
#include <cstdint>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/dtype.hpp>
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace headroom::kernels::device {

/// N elements as stored in memory: 2, 4, 8 or 16 bytes, aligned to their size. Moved by one instruction.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
    static_assert(N * sizeof(T) <= 16 && (N & (N - 1)) == 0,
                  "a vector has a power of two of elements, at most 16 bytes");
    T at[N];
    HEADROOM_DEVICE T& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE const T& operator[](int i) const { return at[i]; }
};

/// N floats in registers. Index it only with loop variables of unrolled loops, or it goes to local memory.
template <int N>
struct Floats {
    float at[N];
    HEADROOM_DEVICE float& operator[](int i) { return at[i]; }
    HEADROOM_DEVICE const float& operator[](int i) const { return at[i]; }
};

/// The number of elements of T in a 16-byte access.
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

HEADROOM_DEVICE float as_float(float x) { return x; }

/// Exact; one instruction.
HEADROOM_DEVICE float as_float(f16 x) {
#if defined(__CUDACC__)
    return __half2float(__ushort_as_half(x.bits));
#else
    return to_float(x);
#endif
}
HEADROOM_DEVICE float as_float(bf16 x) {
#if defined(__CUDACC__)
    return __bfloat162float(__ushort_as_bfloat16(x.bits));
#else
    return to_float(x);
#endif
}

/// Rounds to nearest, ties to even; values too large become infinity; NaN stays NaN (its payload depends on the
/// device).
template <class T>
T rounded(float) = delete;  // kernels store float, f16 or bf16
template <>
HEADROOM_DEVICE float rounded<float>(float x) {
    return x;
}
template <>
HEADROOM_DEVICE f16 rounded<f16>(float x) {
#if defined(__CUDACC__)
    return {__half_as_ushort(__float2half_rn(x))};
#else
    return f16_from_float(x);
#endif
}
template <>
HEADROOM_DEVICE bf16 rounded<bf16>(float x) {
#if defined(__CUDACC__)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    return bf16_from_float(x);
#endif
}

}  // namespace headroom::kernels::device
