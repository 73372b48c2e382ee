#pragma once
// One function per direction and kind of stream. Arrays are row-major, all f32 or all f64.
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

// y = x / (1 + |x|)
void softsign_forward(headroom::kernels::CpuStream& stream, const headroom::kernels::View& x,
                      const headroom::kernels::View& y);
void softsign_forward(headroom::kernels::CudaStream& stream, const headroom::kernels::View& x,
                      const headroom::kernels::View& y);

// dx = beta dx + dy (1 - |y|)^2
void softsign_backward(headroom::kernels::CpuStream& stream, const headroom::kernels::View& y,
                       const headroom::kernels::View& dy, float beta, const headroom::kernels::View& dx);
void softsign_backward(headroom::kernels::CudaStream& stream, const headroom::kernels::View& y,
                       const headroom::kernels::View& dy, float beta, const headroom::kernels::View& dx);
