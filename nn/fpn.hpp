#pragma once
// A feature pyramid: maps the features of a network's stages to one number of channels and adds the coarser levels to
// each. Lin et al. 2017, arXiv:1612.03144. Names are torchvision's ("inner_blocks.0.0.weight").
//
//     nn::FeaturePyramid fpn(root / "fpn", {256, 512, 1024, 2048}, 256);
//     nn::Pyramid levels = fpn(resnet.features(images));    // 1/4, 1/8, 1/16, 1/32 and 1/64 of the images' size
#include <array>
#include <cstdint>
#include <vector>

#include <headroom/nn/conv.hpp>

namespace headroom::nn {

/// Levels [N, C, ., .], finest first; the last level takes every other pixel of the one before.
using Pyramid = std::array<Tensor, 5>;

class FeaturePyramid : public Module<FeaturePyramid> {
  public:
    /// Takes features with `in` channels, finest first. Initialised as in torchvision: Kaiming uniform with slope 1,
    /// biases 0. Errors: ShapeError for sizes below 1.
    FeaturePyramid(const Path& path, std::array<std::int64_t, 4> in, std::int64_t channels);
    Pyramid forward(std::array<Tensor, 4> features) const;

    std::vector<Conv2d> inner_blocks;  ///< 1 x 1
    std::vector<Conv2d> layer_blocks;  ///< 3 x 3
};

}  // namespace headroom::nn
