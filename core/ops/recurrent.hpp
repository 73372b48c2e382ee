#pragma once
// The common part of `lstm` and `gru`: parameters and options of a stack of recurrent layers. Layouts, names and
// results are PyTorch's, so its weights can be used unchanged.
#include <array>
#include <cstdint>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// The parameters of one layer in one direction. G is the number of gates: 4 for an LSTM, in the order i|f|g|o, and 3
/// for a GRU, r|z|n.
struct RecurrentWeights {
    Tensor weight_ih;     ///< [G * H, I]; I is D * H after the first layer
    Tensor weight_hh;     ///< [G * H, H]
    Tensor bias_ih = {};  ///< [G * H] or undefined
    Tensor bias_hh = {};  ///< [G * H] or undefined
};

/// For `checkpoint`: the square root of the number of steps.
inline constexpr std::int64_t kSqrtOfTime = -1;

struct RecurrentOptions {
    bool bidirectional = false;
    bool batch_first = false;  ///< x and the output are [B, T, ...], not [T, B, ...]; states are not affected
    double dropout = 0;        ///< for the output of each layer except the last
    /// [B], i32 or i64, each in [1, T]: sequence b consists of its first lengths[b] elements, as in PyTorch's packed
    /// sequences. Beyond these the output is 0, and the reverse direction begins at the last of these.
    Tensor lengths = {};
    /// Selects what a layer keeps for backward. 0: the gates of all steps. Otherwise backward recomputes the gates of
    /// this many steps at a time, rounded up to whole blocks, which repeats one product with the input and one with the
    /// state. The gradients have the same bits.
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
    std::array<Array, 4> weights;  ///< in input order: by x, by the state, and both biases
    std::array<Array, 4> reverse_weights;
    Array y;
    Array gates;   ///< LSTM: [D, T, B, 4 H], GRU: r and z [D, T, B, 2 H]; undefined if backward recomputes them
    Array cells;   ///< LSTM: [D, T, B, H], likewise
    Array begins;  ///< LSTM: [D, chunks, B, H]: the cells at the start of each chunk
};

}  // namespace ops

}  // namespace headroom
