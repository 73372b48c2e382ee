#pragma once
// Gated recurrent units as modules, with the names, layouts and initialisation of PyTorch's nn.GRU and nn.GRUCell, so
// state dicts are interchangeable. core/ops/gru.hpp has the formulas.
//
//     nn::Gru net(root / "gru", {.in = 96, .width = 128, .layers = 2, .bidirectional = true, .dropout = 0.2});
//     auto [y, h] = net(x);                        // [T, B, 96] -> [T, B, 256], h [4, B, 128]
//     auto [z, last] = net(x, h, lengths);         // with initial states and sequence lengths
//
//     nn::GruCell cell(root / "cell", 96, 128);
//     Tensor now = cell(element, before);          // [B, 96], [B, 128]
#include <headroom/core/ops/gru.hpp>
#include <headroom/nn/module.hpp>
#include <headroom/nn/recurrent.hpp>

namespace headroom::nn {

class Gru : public Module<Gru> {
  public:
    /// Registers the parameters (see recurrent.hpp) below the path. Errors: as `recurrent_weights`.
    Gru(const Path& path, const RecurrentNetOptions& options);
    /// As `gru`; `lengths` [B] or undefined.
    GruOutput forward(Tensor x, Tensor state = {}, Tensor lengths = {}) const;

    RecurrentNetOptions options;
    std::vector<RecurrentWeights> weights;  ///< layer 0, layer 0 in reverse, layer 1, ...
};

/// A single step.
class GruCell : public Module<GruCell> {
  public:
    /// Errors: ShapeError unless both are at least 1.
    GruCell(const Path& path, std::int64_t in, std::int64_t width, bool bias = true);
    /// x [B, in], h [B, width] or undefined for zeros -> h.
    Tensor forward(Tensor x, Tensor h = {}) const;

    RecurrentWeights weights;
};

}  // namespace headroom::nn
