#pragma once
// Normalisation over the last axis.
//
//     nn::LayerNorm norm(root / "ln_1", 128);
//     Tensor y = norm(x);                       // [..., 128] -> [..., 128]
//     nn::RmsNorm rms(root / "norm", 128, 1e-6);
#include <cstdint>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

/// (x - mean) / sqrt(variance + epsilon) * weight + bias. Ba, Kiros and Hinton 2016, arXiv:1607.06450.
class LayerNorm : public Module<LayerNorm> {
  public:
    LayerNorm(const Path& path, std::int64_t width, double epsilon = 1e-5, bool with_bias = true);
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [width], ones
    Tensor bias;    ///< [width], zeros; undefined if there is none
    double epsilon;
};

/// x / sqrt(mean(x^2) + epsilon) * weight. Zhang and Sennrich 2019, arXiv:1910.07467.
class RmsNorm : public Module<RmsNorm> {
  public:
    RmsNorm(const Path& path, std::int64_t width, double epsilon = 1e-5);
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [width], ones
    double epsilon;
};

}  // namespace headroom::nn
