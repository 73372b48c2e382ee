#pragma once
// One time step of gated recurrent units (Cho et al. 2014, arXiv:1406.1078, with the reset gate applied after the
// product, as in PyTorch and cuDNN). Its inputs are the products with the step's input and with the previous state,
// which matmul computes.
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
/// Matrices with any strides: gates, n, h and y of the same floating dtype; `hidden` is f32 (f64 for f64), the dtype of
/// all computation. A sequence that has ended keeps h, and its y is 0.
struct GruStep {
    View gates;             ///< [B, 2 H]: in: x's parts r|z; out: the gates
    View n;                 ///< [B, H]: x's part of n
    View hidden;            ///< [B, 3 H]: the state's parts r|z|n
    View h;                 ///< [B, H]: the state, updated
    View y{};               ///< [B, H]; rank 0: not wanted
    View last{};            ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    std::int64_t time = 0;  ///< the index of this step
};
void gru_step(CpuStream& stream, const GruStep& step);
void gru_step(CudaStream& stream, const GruStep& step);

/// The gradients of a step. For a sequence that has ended they are 0, and dh is unchanged.
struct GruStepGradient {
    View gates;    ///< [B, 2 H]: in: r|z from GruStep; out: the gradients of their arguments, x's part and the state's
    View n;        ///< [B, H], of gates' dtype: in: x's part of n; out: its gradient
    View hidden;   ///< [B, H], of gates' dtype: in: the state's part of n; out: its gradient
    View dhidden;  ///< [B, 3 H], of gates' dtype; out: the gradients of the state's parts r|z|n, side by side
    View before;   ///< [B, H], any floating dtype: the state before the step
    View dy;       ///< [B, H], any floating dtype
    /// [B, H], f32 or f64: in: the gradient of h after the step, without dy; out: that of h before the step, without
    /// the product still to be added.
    View dh;
    View last{};
    std::int64_t time = 0;
};
void gru_step_gradient(CpuStream& stream, const GruStepGradient& step);
void gru_step_gradient(CudaStream& stream, const GruStepGradient& step);

}  // namespace headroom::kernels
