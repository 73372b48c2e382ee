#pragma once
// One time step of a long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, as in PyTorch). Its
// inputs are the products with the step's input and with the previous state, which matmul computes.
//
//     // gates = x W_ih^T + b_ih, hidden = h W_hh^T + b_hh
//     lstm_step(stream, {.gates = gates, .hidden = hidden, .before = c, .c = c, .h = h, .y = y});
//     lstm_step_gradient(stream, {.gates = gates, .before = before, .c = c, .dy = dy, .dh = dh, .dc = dc});
//     // dh += gates W_hh
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// i, f, o = sigmoid and g = tanh of gates + hidden; c = f before + i g; h = y = o tanh(c).
///
/// Matrices with any strides: gates, h and y of the same floating dtype; the others are f32 (f64 for f64), the dtype of
/// all computation. A sequence that has ended keeps c and h, and its y is 0.
struct LstmStep {
    View gates;             ///< [B, 4 H], in the order i|f|g|o: in: x's parts; out: the gates
    View hidden;            ///< [B, 4 H]: the state's parts
    View before;            ///< [B, H]: the cells before the step
    View c;                 ///< [B, H]: the cells after it; may be `before`
    View h;                 ///< [B, H]: the state, updated
    View y{};               ///< [B, H]; rank 0: not wanted
    View last{};            ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    std::int64_t time = 0;  ///< the index of this step
};
void lstm_step(CpuStream& stream, const LstmStep& step);
void lstm_step(CudaStream& stream, const LstmStep& step);

/// The gradients of a step. For a sequence that has ended they are 0, and dh and dc are unchanged.
struct LstmStepGradient {
    View gates;   ///< [B, 4 H]: in: the gates; out: the gradients of their arguments
    View before;  ///< [B, H]
    View c;       ///< [B, H]
    View dy;      ///< [B, H], any floating dtype
    View dh;      ///< [B, H]: in: the gradient of h after the step, without dy; out: 0, so that a product can be added
    View dc;      ///< [B, H]: in: the gradient of c after the step; out: that of c before it
    View last{};
    std::int64_t time = 0;
};
void lstm_step_gradient(CpuStream& stream, const LstmStepGradient& step);
void lstm_step_gradient(CudaStream& stream, const LstmStepGradient& step);

}  // namespace headroom::kernels
