#pragma once
// Convolutions of images as modules, with PyTorch's names, layouts and initialisation.
//
//     nn::Conv2d conv(root / "conv1", 3, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false});
//     Tensor y = conv(images);                                    // [8, 3, 224, 224] -> [8, 64, 112, 112]
//     nn::ConvTranspose2d up(root / "up", 128, 64, {.kernel = 2, .stride = 2});
#include <cstdint>

#include <headroom/nn/module.hpp>

namespace headroom::nn {

/// The same for height and width.
struct Conv2dOptions {
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    bool relu = false;                  ///< behind it
    Initializer weight = nullptr;       ///< null: Kaiming uniform with slope sqrt(5), PyTorch's default
    Initializer bias_values = nullptr;  ///< null: uniform within 1 / sqrt(fan_in), PyTorch's default
};

class Conv2d : public Module<Conv2d> {
  public:
    /// Registers "weight" and, unless `options.bias` is false, "bias" below the path. Errors: ShapeError if the groups
    /// do not divide both numbers of channels, or for sizes below 1.
    Conv2d(const Path& path, std::int64_t in, std::int64_t out, Conv2dOptions options = {});
    /// x [N, in, H, W] -> [N, out, ...]. Errors: those of conv2d.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [out, in / groups, kernel, kernel], channels-last in memory
    Tensor bias;    ///< [out]; undefined without
    Conv2dOptions options;
};

struct ConvTranspose2dOptions {
    std::int64_t kernel = 2;
    std::int64_t stride = 2;
    std::int64_t padding = 0;
    bool bias = true;
};

class ConvTranspose2d : public Module<ConvTranspose2d> {
  public:
    ConvTranspose2d(const Path& path, std::int64_t in, std::int64_t out, ConvTranspose2dOptions options = {});
    /// x [N, in, H, W] -> [N, out, ...]. Errors: those of conv_transpose2d.
    Tensor forward(Tensor x) const;

    Tensor weight;  ///< [in, out, kernel, kernel]
    Tensor bias;    ///< [out]; undefined without
    ConvTranspose2dOptions options;
};

}  // namespace headroom::nn
