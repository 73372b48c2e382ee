#pragma once
// A layer of a recurrent network, in one direction or both, over a whole sequence: what LSTM and GRU have in common.
//
//     RecurrentResult result = recurrent_forward(exec, recurrent::Cell::lstm, attrs, inputs);
//     recurrent_backward(exec, recurrent::Cell::lstm, attrs, saved, {dy, dh_n, dc_n}, sink);
//
// Time is worked through in blocks, whose length depends on sizes alone: one product for the inputs of a block, one a
// step for the state; the gradients of weights are summed block by block. What is kept for backward is kept for chunks
// of whole blocks, all of time by default: so no bit depends on the chunks.
#include <span>

#include <headroom/core/grad_sink.hpp>
#include <headroom/core/op.hpp>
#include <headroom/core/ops/internal/recurrent_run.hpp>
#include <headroom/core/ops/recurrent.hpp>

namespace headroom {

struct RecurrentResult {
    ops::RecurrentSaved saved;
    Array y;
    Array h_n;
    Array c_n;
};

/// Inputs: x [T, B, I]; h0 [D, B, H] or undefined; c0 the same (GRU: undefined), of any floating dtype; the indices of
/// the sequences' last elements [B] or undefined; for each direction weight_ih [gates H, I], weight_hh [gates H, H],
/// bias_ih, bias_hh [gates H] or undefined.
RecurrentResult recurrent_forward(Exec& exec, recurrent::Cell cell, const ops::RecurrentAttrs& attrs,
                                  std::span<const Array> inputs);
/// `dy`: of y, h_n and, for LSTM, c_n; x's gradient may be written over the first.
void recurrent_backward(Exec& exec, recurrent::Cell cell, const ops::RecurrentAttrs& attrs, ops::RecurrentSaved& saved,
                        std::span<Array> dy, GradSink sink);
/// Of a layer with these inputs.
Operations recurrent_operations(const ops::RecurrentAttrs& attrs, std::span<const Shape> inputs);
/// Sample calls of a layer with these gates.
std::vector<Sample<ops::RecurrentAttrs>> recurrent_samples(recurrent::Cell cell);

}  // namespace headroom
