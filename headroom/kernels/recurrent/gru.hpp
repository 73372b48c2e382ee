#pragma once
// One time step of gated recurrent units (Cho et al. 2014, arXiv:1406.1078, with the reset gate behind the product, as
// PyTorch and cuDNN have it): what is done to the products of a step's input and of the state before it. The products
// are matmul's.
//
//     // gates = x W_ih^T + b_ih, hidden = h W_hh^T + b_hh
//     gru_step(stream, {.gates = gates, .hidden = hidden, .h = h, .y = y});
//     // n's part of dhidden = h before W_hn^T + b_hn
//     gru_step_gradient(stream, {.gates = gates, .hidden = dhidden, .before = before, .dy = dy, .dh = dh});
//     // dh += dhidden W_hh
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// r, z = sigmoid of gates + hidden; n = tanh(gates + r hidden); h = y = (1 - z) n + z h.
///
/// Matrices with any strides: gates, h and y of one floating dtype, `hidden` f32 (f64 for f64), in which all is
/// computed. A sequence that has ended keeps h, and its y is 0.
struct GruStep {
    View gates;             ///< [B, 3 H]: x's parts r|z|n before, the gates after
    View hidden;            ///< [B, 3 H]: the state's parts
    View h;                 ///< [B, H]: the state, before and after
    View y{};               ///< [B, H]; rank 0: not wanted
    View last{};            ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    std::int64_t time = 0;  ///< the index of this step
};
void gru_step(CpuStream& stream, const GruStep& step);
void gru_step(CudaStream& stream, const GruStep& step);

/// The gradients of a step. Those of a sequence that has ended are 0, and it keeps dh.
struct GruStepGradient {
    View gates;   ///< [B, 3 H]: as GruStep leaves them; afterwards the gradients of x's parts
    View hidden;  ///< [B, 3 H], of gates' dtype: the state's part of n; afterwards the gradients of the state's parts
    View before;  ///< [B, H], any floating dtype: the state before the step
    View dy;      ///< [B, H], any floating dtype
    View dh;      ///< [B, H], f32 or f64: of h after the step, but for dy; then of h before it, but for the
                  ///< product, which is to be added
    View last{};
    std::int64_t time = 0;
};
void gru_step_gradient(CpuStream& stream, const GruStepGradient& step);
void gru_step_gradient(CudaStream& stream, const GruStepGradient& step);

}  // namespace headroom::kernels
