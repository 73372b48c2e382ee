#pragma once
// Long short-term memory as modules, with the names, layouts and initialisation of PyTorch's nn.LSTM and nn.LSTMCell,
// so state dicts are interchangeable. core/ops/lstm.hpp has the formulas.
//
//     nn::Lstm net(root / "lstm", {.in = 96, .width = 128, .layers = 2, .bidirectional = true, .dropout = 0.2});
//     auto [y, state] = net(x);                    // [T, B, 96] -> [T, B, 256], h and c [4, B, 128]
//     auto [z, last] = net(x, state, lengths);     // with initial states and sequence lengths
//
//     nn::LstmCell cell(root / "cell", 96, 128);
//     LstmState now = cell(element, before);       // [B, 96], h and c [B, 128]
#include <headroom/core/ops/lstm.hpp>
#include <headroom/nn/module.hpp>
#include <headroom/nn/recurrent.hpp>

namespace headroom::nn {

class Lstm : public Module<Lstm> {
  public:
    /// Registers the parameters (see recurrent.hpp) below the path. Errors: as `recurrent_weights`.
    Lstm(const Path& path, const RecurrentNetOptions& options);
    /// As `lstm`; `lengths` [B] or undefined.
    LstmOutput forward(Tensor x, LstmState state = {}, Tensor lengths = {}) const;

    RecurrentNetOptions options;
    std::vector<RecurrentWeights> weights;  ///< layer 0, layer 0 in reverse, layer 1, ...
};

/// A single step.
class LstmCell : public Module<LstmCell> {
  public:
    /// Errors: ShapeError unless both are at least 1.
    LstmCell(const Path& path, std::int64_t in, std::int64_t width, bool bias = true);
    /// x [B, in], h and c [B, width] or undefined for zeros -> h and c.
    LstmState forward(Tensor x, LstmState state = {}) const;

    RecurrentWeights weights;
};

}  // namespace headroom::nn
