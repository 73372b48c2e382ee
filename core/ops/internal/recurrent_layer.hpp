#pragma once
// A layer of a recurrent network over a whole sequence, in one direction or both: the common part of LSTM and GRU.
//
//     RecurrentResult result = recurrent_forward(exec, recurrent::Cell::lstm, attrs, inputs);
//     recurrent_backward(exec, recurrent::Cell::lstm, attrs, saved, {dy, dh_n, dc_n}, sink);
//
// Time is processed in blocks, whose length depends on sizes alone: one product for the inputs of a block, one per step
// for the state. Gradients of weights are summed block by block. Values are kept for backward in chunks of whole
// blocks, by default one chunk for all of time, so the results don't depend on the chunks by a single bit.
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

/// Inputs: x [T, B, I]; h0 [D, B, H] or undefined; c0 likewise (GRU: undefined), of any floating dtype; the index of
/// each sequence's last element [B] or undefined; for each direction weight_ih [gates H, I], weight_hh [gates H, H],
/// bias_ih, bias_hh [gates H] or undefined.
RecurrentResult recurrent_forward(Exec& exec, recurrent::Cell cell, const ops::RecurrentAttrs& attrs,
                                  std::span<const Array> inputs);
/// `dy`: the gradients of y, h_n and, for LSTM, c_n; x's gradient may overwrite the first.
void recurrent_backward(Exec& exec, recurrent::Cell cell, const ops::RecurrentAttrs& attrs, ops::RecurrentSaved& saved,
                        std::span<Array> dy, GradSink sink);
/// The operations of a layer with these inputs.
Operations recurrent_operations(const ops::RecurrentAttrs& attrs, std::span<const Shape> inputs);
/// Sample calls of a layer with this kind of cell.
std::vector<Sample<ops::RecurrentAttrs>> recurrent_samples(recurrent::Cell cell);

}  // namespace headroom
