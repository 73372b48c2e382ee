#pragma once
// Convolutions of images as modules, with PyTorch's names, layouts and initialisation. Weights are channels-last in
// memory, like images.
//
//     nn::Conv2d conv(root / "conv1", 3, 64, 7, {.stride = 2, .padding = 3}, {.bias = false});
//     Tensor y = conv(images);                                    // [8, 3, 224, 224] -> [8, 64, 112, 112]
//     nn::ConvTranspose2d up(root / "up", 128, 64, 2, {.stride = 2});
#include <cstdint>

#include <headroom/core/ops/convolution.hpp>
#include <headroom/nn/linear.hpp>

namespace headroom::nn {

/// Takes two sets of options: `options` for the convolution, and LinearOptions for bias and initialisers. PyTorch's
/// Conv2d(3, 64, 7, stride=2, bias=False) is Conv2d(path, 3, 64, 7, {.stride = 2}, {.bias = false}).
class Conv2d : public Module<Conv2d> {
  public:
    /// Registers "weight" and, unless `parameters.bias` is false, "bias" below the path, initialised as in `Linear`.
    /// Errors: ShapeError unless `groups` divides both numbers of channels, or for sizes below 1.
    Conv2d(const Path& path, std::int64_t in, std::int64_t out, IntPair kernel, Conv2dOptions options = {},
           LinearOptions parameters = {});
    /// x [N, in, H, W] -> [N, out, ...]. Errors: as conv2d.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [out, in / groups, kernel height, width]
    Tensor bias;    ///< [out]; undefined if there is none
    Conv2dOptions options;
};

/// Takes the same two sets of options as Conv2d.
class ConvTranspose2d : public Module<ConvTranspose2d> {
  public:
    /// As Conv2d.
    ConvTranspose2d(const Path& path, std::int64_t in, std::int64_t out, IntPair kernel,
                    ConvTranspose2dOptions options = {}, LinearOptions parameters = {});
    /// x [N, in, H, W] -> [N, out, ...]. Errors: as conv_transpose2d.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [in, out / groups, kernel height, width]
    Tensor bias;    ///< [out]; undefined if there is none
    ConvTranspose2dOptions options;
};

}  // namespace headroom::nn
