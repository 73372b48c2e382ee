#pragma once
// One time step of a long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, as PyTorch has it):
// it works on the products of a step's input and of the state before it, which matmul computes.
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
/// Matrices with any strides: gates, h and y of one floating dtype, the others f32 (f64 for f64), in which all is
/// computed. A sequence that has ended keeps c and h, and its y is 0.
struct LstmStep {
    View gates;             ///< [B, 4 H], in the order i|f|g|o: x's parts before, the gates after
    View hidden;            ///< [B, 4 H]: the state's parts
    View before;            ///< [B, H]: the cells before the step
    View c;                 ///< [B, H]: the cells after it; may be `before`
    View h;                 ///< [B, H]: the state, before and after
    View y{};               ///< [B, H]; rank 0: not wanted
    View last{};            ///< [B], i32 or i64: the index of each sequence's last element; rank 0: none ends early
    std::int64_t time = 0;  ///< the index of this step
};
void lstm_step(CpuStream& stream, const LstmStep& step);
void lstm_step(CudaStream& stream, const LstmStep& step);

/// The gradients of a step. Those of a sequence that has ended are 0, and it keeps dh and dc.
struct LstmStepGradient {
    View gates;   ///< [B, 4 H]: the gates before, the gradients of their arguments after
    View before;  ///< [B, H]
    View c;       ///< [B, H]
    View dy;      ///< [B, H], any floating dtype
    View dh;      ///< [B, H]: of h after the step, but for dy; 0 afterwards, so that a product can be added
    View dc;      ///< [B, H]: of c after the step, and of c before it afterwards
    View last{};
    std::int64_t time = 0;
};
void lstm_step_gradient(CpuStream& stream, const LstmStepGradient& step);
void lstm_step_gradient(CudaStream& stream, const LstmStepGradient& step);

}  // namespace headroom::kernels
