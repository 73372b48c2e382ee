#pragma once
// U-Net for segmentation: an encoder, and a decoder with skip connections from each stage. Ronneberger, Fischer and
// Brox 2015, arXiv:1505.04597, with padded convolutions and batch norms, as in milesial's Pytorch-UNet. Parameters have
// the names of that implementation ("down3.maxpool_conv.1.double_conv.4.running_mean").
//
//     nn::UNet model(parameters, {.channels = 3, .classes = 2});
//     Tensor logits = model(images);                              // [1, 3, 959, 640] -> [1, 2, 959, 640]
//     Loss loss = cross_entropy(logits.permute({0, 2, 3, 1}), masks);   // masks [1, 959, 640]
#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/recompute_way.hpp>

namespace headroom::nn {

struct UNetOptions {
    std::int64_t channels = 3;  ///< of the images
    std::int64_t classes = 2;
    std::int64_t width = 64;  ///< channels at full size; they double at each of the four smaller sizes
    bool bilinear =
        false;  ///< upsampling by interpolation, with half of the deepest channels; false: by transposed convolutions
};

/// Two stages of 3 x 3 convolution, batch norm and ReLU.
class DoubleConv : public Module<DoubleConv> {
  public:
    /// `middle`: channels between the two convolutions.
    DoubleConv(const Path& path, std::int64_t in, std::int64_t out, std::int64_t middle);
    Tensor forward(Tensor x) const;

    Conv2d conv1;
    BatchNorm2d norm1;
    Conv2d conv2;
    BatchNorm2d norm2;
};

class UNet : public Module<UNet> {
  public:
    static constexpr std::int64_t kStages = 4;  ///< stages of the encoder, each at half the size of the one before
    static constexpr std::int64_t kLeastSize = 1 << kStages;  ///< smallest image side, in pixels

    /// Errors: ShapeError for sizes below 1.
    UNet(const Path& path, const UNetOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();
    /// Images [N, channels, H, W] -> logits [N, classes, H, W]. If a size is odd, the upsampled features are padded
    /// with zeros. Errors: ShapeError below 16 x 16 pixels.
    Tensor forward(Tensor images) const;

    UNetOptions options;
    DoubleConv inc;
    std::vector<DoubleConv> down;     ///< each after 2 x 2 max pooling
    std::vector<ConvTranspose2d> up;  ///< deepest first; empty if bilinear
    std::vector<DoubleConv> join;     ///< join the encoder's features with the upsampled ones
    Conv2d outc;
};

/// The sizes of the U-Net in a file with these names. Errors: FileError if the file is damaged or holds no such U-Net.
UNetOptions unet_sizes(const std::filesystem::path& path);

}  // namespace headroom::nn
