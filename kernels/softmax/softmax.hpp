#pragma once
// Softmax and its logarithm over the last axis, and their gradients. Not needed for attention, which never stores its
// probabilities (see attention/), or for a loss (see cross_entropy/), which computes none.
//
//     softmax(stream, x, y);                       // x, y [768, 65]
//     softmax_backward(stream, y, dy, dx, 0);
//     log_softmax(stream, x, y);
//     log_softmax_backward(stream, y, dy, dx, 1);  // dx += ...
//
// Any floating dtypes and strides; f64 is computed in f64, everything else in f32. The row's largest element is
// subtracted first, so that finite inputs never overflow. A row of -infinity, or one with NaN or +infinity, gives NaN
// as in PyTorch. An output may be one of the inputs, with the same geometry and dtype (beta 0).
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = exp(x) / sum(exp(x)), row by row.
void softmax(CpuStream& stream, const View& x, const View& y);
void softmax(CudaStream& stream, const View& x, const View& y);

/// dx = beta * dx + y * (dy - sum(y * dy)), row by row.
void softmax_backward(CpuStream& stream, const View& y, const View& dy, const View& dx, float beta);
void softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta);

/// y = x - log(sum(exp(x))), row by row.
void log_softmax(CpuStream& stream, const View& x, const View& y);
void log_softmax(CudaStream& stream, const View& x, const View& y);

/// dx = beta * dx + dy - exp(y) * sum(dy), row by row.
void log_softmax_backward(CpuStream& stream, const View& y, const View& dy, const View& dx, float beta);
void log_softmax_backward(CudaStream& stream, const View& y, const View& dy, const View& dx, float beta);

}  // namespace headroom::kernels
