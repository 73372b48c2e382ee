#pragma once
// The parameters of a stack of recurrent layers, with PyTorch's names below a path: weight_ih_l0, weight_hh_l0,
// bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ..., all initialised uniformly within 1 / sqrt(width), as in PyTorch.
// `Lstm` and `Gru` use them; networks with other cells can, too.
//
//     std::vector<RecurrentWeights> weights = nn::recurrent_weights(path, 4, {.in = 96, .width = 128, .layers = 2});
#include <cstdint>
#include <vector>

#include <headroom/core/ops/recurrent.hpp>
#include <headroom/nn/path.hpp>

namespace headroom::nn {

struct RecurrentNetOptions {
    std::int64_t in = 0;     ///< features of an element; PyTorch's input_size
    std::int64_t width = 0;  ///< features of a state; PyTorch's hidden_size
    std::int64_t layers = 1;
    bool bias = true;
    bool bidirectional = false;
    bool batch_first = false;     ///< x and the output are [B, T, ...]
    double dropout = 0;           ///< in training, on each layer's output except the last
    std::int64_t checkpoint = 0;  ///< see RecurrentOptions
};

/// The weights of all layers and directions, in the order that `lstm` takes. `gates`: 4 for an LSTM, 3 for a GRU.
/// Errors: ShapeError unless `in`, `width` and `layers` are at least 1; Error unless dropout is in [0, 1].
std::vector<RecurrentWeights> recurrent_weights(const Path& path, std::int64_t gates,
                                                const RecurrentNetOptions& options);
/// The weights of a cell. Their names have no layer: weight_ih, weight_hh, bias_ih, bias_hh.
RecurrentWeights recurrent_cell_weights(const Path& path, std::int64_t gates, std::int64_t in, std::int64_t width,
                                        bool bias);

/// The options for one call.
RecurrentOptions recurrent_options(const RecurrentNetOptions& options, bool training, Tensor lengths);
/// A cell's input or state [B, features] as a sequence of one element; undefined if x is. Errors: ShapeError that names
/// `op`.
Tensor one_step(const char* op, const char* name, const Tensor& x);

}  // namespace headroom::nn
