#pragma once
// Fills arrays: with one value, an arithmetic sequence, or the causal mask. For random values see `random`.
//
//     kernels::fill(stream, 0.0, y);
//     kernels::arange(stream, 0.0, 1.0, positions);
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = value, rounded to y's dtype by the rules of `convert.hpp`; any shape and strides.
void fill(CpuStream& stream, double value, const View& y);
void fill(CudaStream& stream, double value, const View& y);

/// y[i] = start + i step, computed in f64 and rounded once; y has one axis.
void arange(CpuStream& stream, double start, double step, const View& y);
void arange(CudaStream& stream, double start, double step, const View& y);

/// y[t, s] = s <= t + keys - queries, y [queries, keys] of any dtype: true for the keys that a query attends to.
void causal_mask(CpuStream& stream, const View& y);
void causal_mask(CudaStream& stream, const View& y);

}  // namespace headroom::kernels
