#pragma once
// Dropout (Srivastava et al. 2014) without a mask in memory: word i of a random sequence decides whether element i is
// kept, so the gradient and a replay draw the same words from the same key.
//
//     const RandomKey key = op_key(seed, counter);
//     kernels::dropout(stream, key, 0.1f, x, y);
//     kernels::dropout_backward(stream, key, 0.1f, dy, 0.0f, dx);
//     kernels::dropout_add(stream, key, 0.1f, branch, x, x);     // x += dropout(branch)
#include <headroom/kernels/random/philox.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = x / (1 - p) where kept, else 0; p in [0, 1]. Element i, in row-major order, is kept if its word is at least p
/// 2^32. x and y have the same shape, any strides, floating dtypes; y may be x's memory.
void dropout(CpuStream& stream, const RandomKey& key, float p, const View& x, const View& y);
void dropout(CudaStream& stream, const RandomKey& key, float p, const View& x, const View& y);

/// dx = beta dx + (dy / (1 - p) where kept, else 0).
void dropout_backward(CpuStream& stream, const RandomKey& key, float p, const View& dy, float beta, const View& dx);
void dropout_backward(CudaStream& stream, const RandomKey& key, float p, const View& dy, float beta, const View& dx);

/// y = x + dropout(branch), in one pass and rounded once: the same bits as `dropout` and an addition, unless an array
/// has a half dtype. All have the same shape, any strides, floating dtypes; y may be the memory of branch or x. The
/// gradient of x is dy; that of branch is `dropout_backward`'s.
void dropout_add(CpuStream& stream, const RandomKey& key, float p, const View& branch, const View& x, const View& y);
void dropout_add(CudaStream& stream, const RandomKey& key, float p, const View& branch, const View& x, const View& y);

}  // namespace headroom::kernels
