#pragma once
// The common part of `lstm` and `gru`: parameters and options of a stack of recurrent layers. Layouts, names and
// results are PyTorch's, so that its weights can be used as they are.
#include <array>
#include <cstdint>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// The parameters of one layer in one direction. G is 4 for an LSTM, its gates in the order i|f|g|o, and 3 for a GRU,
/// r|z|n.
struct RecurrentWeights {
    Tensor weight_ih;     ///< [G * H, I]; I is D * H behind the first layer
    Tensor weight_hh;     ///< [G * H, H]
    Tensor bias_ih = {};  ///< [G * H] or undefined
    Tensor bias_hh = {};  ///< [G * H] or undefined
};

/// For `checkpoint`: the square root of the number of steps.
inline constexpr std::int64_t kSqrtOfTime = -1;

struct RecurrentOptions {
    bool bidirectional = false;
    bool batch_first = false;  ///< x and the output are [B, T, ...], not [T, B, ...]; states are not affected
    double dropout = 0;        ///< of each layer's output except the last
    /// [B], i32 or i64, each in [1, T]: sequence b consists of the first lengths[b] elements, as in PyTorch's packed
    /// sequences. Behind them the output is 0, and the other direction begins at the last of them.
    Tensor lengths = {};
    /// What a layer keeps for backward. 0: the gates of all steps. Else backward makes the gates of this many steps at
    /// a time again, rounded up to whole blocks; that repeats a product by the input and one by the state. The
    /// gradients' bits are the same.
    std::int64_t checkpoint = 0;
};

namespace ops {

struct RecurrentAttrs {
    std::int64_t checkpoint = 0;  ///< see RecurrentOptions
};

struct RecurrentSaved {
    Array x;
    Array h0;
    Array last;
    std::array<Array, 4> weights;  ///< as the inputs: by x, by the state, and both biases
    std::array<Array, 4> reverse_weights;
    Array y;
    Array gates;   ///< LSTM: [D, T, B, 4 H], GRU: r and z [D, T, B, 2 H]; undefined if backward makes them again
    Array cells;   ///< LSTM: [D, T, B, H], likewise
    Array begins;  ///< LSTM: [D, chunks, B, H]: the cells that a chunk begins with
};

}  // namespace ops

}  // namespace headroom
