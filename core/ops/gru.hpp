#pragma once
// Gated recurrent units (Cho et al. 2014, arXiv:1406.1078) over whole sequences: several layers, both directions,
// sequences of different lengths. Follows PyTorch's nn.GRU, which applies the reset gate after the product. For modules
// see nn.
//
//     auto [y, h] = gru(x, {weights});                                   // x [T, B, I] -> y [T, B, H]
//     auto [z, last] = gru(x, {forth, back}, {}, {.bidirectional = true, .lengths = lengths});   // [T, B, 2 H]
#include <vector>

#include <headroom/core/apply.hpp>
#include <headroom/core/ops/recurrent.hpp>

namespace headroom {

namespace ops {

/// One layer. Its inputs are those of `Lstm`, with c0 undefined.
struct Gru {
    static constexpr OpInfo info{.name = "gru", .cost = Cost::expensive, .precision = Precision::half};
    using Attrs = RecurrentAttrs;
    using Saved = RecurrentSaved;
    using Out = std::array<Array, 2>;
    static OpResult<Saved, Out> forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Out dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

struct GruOutput {
    Tensor output;  ///< [T, B, D * H]: the last layer's states
    Tensor h;       ///< [L * D, B, H], after each sequence's last element (reverse direction: after its first)
};

/// For each step of x [T, B, I] (`batch_first`: [B, T, I]), h = (1 - z) n + z h with r, z = sigmoid of W_ih x + b_ih +
/// W_hh h + b_hh and n = tanh(W_in x + b_in + r (W_hn h + b_hn)). `weights`, dtypes and errors: as `lstm`. `h0` [L * D,
/// B, H] or undefined for zeros. Keeps x and 3 H elements per step and sequence for backward, for each layer and
/// direction; with `checkpoint`, H of them.
GruOutput gru(Tensor x, const std::vector<RecurrentWeights>& weights, Tensor h0 = {},
              const RecurrentOptions& options = {});

}  // namespace headroom
