#pragma once
// Copies between arrays of the same shape with any strides and dtypes, and sums of scaled arrays. A copy also casts,
// and materialises transposed and expanded views. Source and target must not overlap.
//
//     kernels::copy(stream, x, y);                    // y = x, converted by the rules of `convert.hpp`
//     kernels::accumulate(stream, dy, dx, 1.0f, 1.0f);  // dx += dy
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = x; x has y's shape or broadcasts to it. Transpositions run in blocks that fit the L1 cache.
void copy(CpuStream& stream, const View& x, const View& y);
void copy(CudaStream& stream, const View& x, const View& y);

/// y = alpha x + beta y; x has y's shape or broadcasts to it, and may be y itself. With beta = 0, y is never read.
/// Computed in f64 if either is f64, else in f32; for integers in i64, with alpha and beta truncated.
void accumulate(CpuStream& stream, const View& x, const View& y, float alpha, float beta);
void accumulate(CudaStream& stream, const View& x, const View& y, float alpha, float beta);

}  // namespace headroom::kernels
