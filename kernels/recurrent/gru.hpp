#pragma once
// One time step of gated recurrent units (Cho et al. 2014, arXiv:1406.1078, with the reset gate behind the product, as
// PyTorch and cuDNN have it): it works on the products of a step's input and of the state before it, which matmul
// computes.
//
//     // gates|n = x W_ih^T + b_ih, hidden = h W_hh^T + b_hh
//     gru_step(stream, {.gates = gates, .n = n, .hidden = hidden, .h = h, .y = y});
//     // n = x W_in^T + b_in, hidden = h before W_hn^T + b_hn
//     gru_step_gradient(stream, {.gates = gates, .n = n, .hidden = hidden, .dhidden = dhidden,
//                                .before = before, .dy = dy, .dh = dh});
//     // dh += dhidden W_hh
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// r, z = sigmoid of gates + hidden; n = tanh(x's part + r hidden); h = y = (1 - z) n + z h.
///
/// Matrices with any strides: gates, n, h and y of one floating dtype, `hidden` f32 (f64 for f64), in which all is
/// computed. A sequence that has ended keeps h, and its y is 0.
struct GruStep {
    View gates;             ///< [B, 2 H]: x's parts r|z before, the gates after
    View n;                 ///< [B, H]: x's part of n
    View hidden;            ///< [B, 3 H]: the state's parts r|z|n
    View h;                 ///< [B, H]: the state, before and after
    View y{};               ///< [B, H]; rank 0: not wanted
    View last{};            ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    std::int64_t time = 0;  ///< the index of this step
};
void gru_step(CpuStream& stream, const GruStep& step);
void gru_step(CudaStream& stream, const GruStep& step);

/// The gradients of a step. Those of a sequence that has ended are 0, and it keeps dh.
struct GruStepGradient {
    View gates;  ///< [B, 2 H]: r|z as GruStep leaves them; afterwards the gradients of their parts, x's and the state's
    View n;      ///< [B, H], of gates' dtype: x's part of n; afterwards its gradient
    View hidden;   ///< [B, H], of gates' dtype: the state's part of n; afterwards its gradient
    View dhidden;  ///< [B, 3 H], of gates' dtype, written: the gradients of the state's parts r|z|n side by side
    View before;   ///< [B, H], any floating dtype: the state before the step
    View dy;       ///< [B, H], any floating dtype
    View dh;       ///< [B, H], f32 or f64: of h after the step, but for dy; then of h before it, but for the
                   ///< product, which is to be added
    View last{};
    std::int64_t time = 0;
};
void gru_step_gradient(CpuStream& stream, const GruStepGradient& step);
void gru_step_gradient(CudaStream& stream, const GruStepGradient& step);

}  // namespace headroom::kernels
