#pragma once
// Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates) over whole sequences: several layers,
// both directions, sequences of different lengths. Follows PyTorch's nn.LSTM, without projections. For modules see nn.
//
//     auto [y, state] = lstm(x, {weights});                          // x [T, B, I] -> y [T, B, H]
//     auto [z, last] = lstm(x, {forth, back}, {}, {.bidirectional = true, .lengths = lengths});   // [T, B, 2 H]
//     auto [w, end] = lstm(x, {first, second}, state, {.checkpoint = kSqrtOfTime});               // two layers
#include <vector>

#include <headroom/core/apply.hpp>
#include <headroom/core/ops/recurrent.hpp>

namespace headroom {

namespace ops {

/// One layer.
struct Lstm {
    static constexpr OpInfo info{
        .name = "lstm", .cost = Cost::expensive, .precision = Precision::half, .as_is = 0b100 /* c0 */};
    using Attrs = RecurrentAttrs;
    using Saved = RecurrentSaved;
    using Out = std::array<Array, 3>;
    static OpResult<Saved, Out> forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Out dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// The state of L layers in D directions.
struct LstmState {
    Tensor h = {};  ///< [L * D, B, H]; undefined for zeros
    Tensor c = {};  ///< the same; in results, f32 for halves
};
struct LstmOutput {
    Tensor output;    ///< [T, B, D * H]: the last layer's states
    LstmState state;  ///< after each sequence's last element (reverse direction: after its first)
};

/// c = f c + i g, h = o tanh(c) for each step of x [T, B, I] (`batch_first`: [B, T, I]), with i, f, o = sigmoid and g =
/// tanh of W_ih x + b_ih + W_hh h + b_hh. `weights`: layer 0, layer 0 in reverse, layer 1, ... Floating dtypes; mixed
/// ones are cast to the widest, under `Autocast` to the half dtype, with cells and sums in f32. Keeps x and 6 H
/// elements per step and sequence for backward, for each layer and direction; with `checkpoint`, H of them. On the CPU,
/// transposed copies of W_hh take workspace. Errors: ShapeError, DtypeError; Error for options out of range; ShapeError
/// for lengths out of range, on a GPU when the host next waits.
LstmOutput lstm(Tensor x, const std::vector<RecurrentWeights>& weights, LstmState state = {},
                const RecurrentOptions& options = {});

}  // namespace headroom
