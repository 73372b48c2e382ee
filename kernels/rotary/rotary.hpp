#pragma once
// Rotary position embedding: rotates pairs of elements of each head by an angle proportional to the position (Su et al.
// 2021, arXiv:2104.09864). The gradient is the reverse rotation. Positions must count up from a first one.
//
//     rotary(stream, {.first_position = 3, .heads = 2}, x, 0, y);                  // x, y [B, T, 2, D]
//     rotary(stream, {.first_position = 3, .heads = 2, .back = true}, dy, 1, dx);  // dx += gradient
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct Rotary {
    double base = 10000;
    bool interleaved = false;         ///< pair i is elements 2 i and 2 i + 1; otherwise i and i + D / 2
    std::int64_t first_position = 0;  ///< the position of t = 0
    std::int64_t heads = 0;           ///< heads to rotate, from the first; the others are copied
    bool back = false;                ///< rotate by the negative angle
};

/// y = beta y + x with pair i at position t rotated by (first_position + t) base^(-2 i / D): (a, b) -> (a cos - b sin,
/// a sin + b cos). x and y [B, T, H, D] with any strides and floating dtypes, D even. f64 is computed in f64; otherwise
/// angles are computed in f64 and the rest in f32. y may be x's memory (beta 0).
void rotary(CpuStream& stream, const Rotary& rotary, const View& x, float beta, const View& y);
void rotary(CudaStream& stream, const Rotary& rotary, const View& x, float beta, const View& y);

}  // namespace headroom::kernels
