#pragma once
// A linear layer: y = x W^T + b, the weight stored as [out, in].
//
//     nn::Linear layer(root / "head", 128, 10);
//     Tensor y = layer(x);                                       // [batch, 128] -> [batch, 10]
//     nn::Linear plain(root / "proj", 128, 128, {.bias = false});
//     nn::Linear small(root / "out", 128, 128, {.weight = nn::init::normal(0, 0.02), .bias_values = nn::init::zeros()});
#include <cstdint>
#include <functional>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

struct LinearOptions {
    bool bias = true;
    Initializer weight = nullptr;       ///< null: Kaiming uniform with slope sqrt(5), PyTorch's default
    Initializer bias_values = nullptr;  ///< null: uniform within 1 / sqrt(in), PyTorch's default
};

class Linear : public Module<Linear> {
  public:
    /// Registers "weight" and, unless `options.bias` is false, "bias" below the path.
    Linear(const Path& path, std::int64_t in, std::int64_t out, LinearOptions options = {});
    /// x [..., in] -> [..., out].
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [out, in]
    Tensor bias;    ///< [out]; undefined if there is none
    /// If set, its output is added to the result: [..., in] -> [..., out]. Set by `add_low_rank` (low_rank.hpp) or by
    /// the program.
    std::function<Tensor(const Tensor& x)> adapter;
};

}  // namespace headroom::nn
