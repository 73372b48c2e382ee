#pragma once
// The gradient of a bias: sums over the rows of a matrix. For sums over other axes see kernels/reduce.
//
//     bias_gradient(stream, dy, dbias, 1.0f);   // dbias[n] += sum of dy[m, n] over m
#include <headroom/kernels/view.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom::kernels {

/// dbias[n] = beta * dbias + the sum of dy[..., n] over all other axes. dy: f32, f16, bf16 or f64, any strides; dbias:
/// dy's dtype or f32, any stride. Accumulates in f32 (f64 for f64) in a fixed order for any number of threads. With
/// beta = 0, dbias is never read. Needs no scratch.
void bias_gradient(CpuStream& stream, const View& dy, const View& dbias, float beta);

}  // namespace headroom::kernels
