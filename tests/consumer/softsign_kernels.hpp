#pragma once
// One function per direction and kind of stream. Arrays are row-major f32.
#include <headroom/kernels/view.hpp>
#include <headroom/kernels/stream.hpp>

// y = x / (1 + |x|)
void softsign_forward(headroom::CpuStream& stream, const headroom::View& x, const headroom::View& y);
void softsign_forward(headroom::CudaStream& stream, const headroom::View& x, const headroom::View& y);

// dx = beta dx + dy (1 - |y|)^2
void softsign_backward(headroom::CpuStream& stream, const headroom::View& y, const headroom::View& dy, float beta,
                       const headroom::View& dx);
void softsign_backward(headroom::CudaStream& stream, const headroom::View& y, const headroom::View& dy, float beta,
                       const headroom::View& dx);
