#pragma once
// Residual networks for images. He et al. 2015, "Deep Residual Learning for Image Recognition", arXiv:1512.03385; the
// stride of a bottleneck is in its 3 x 3 convolution, as in torchvision. Parameters have torchvision's names
// ("layer3.5.conv2.weight"), so its weights load unchanged.
//
//     nn::ResNet model(parameters, nn::ResNetOptions::resnet50());
//     Tensor logits = model(images);                                  // [8, 3, 224, 224] -> [8, 1000]
//     nn::ResNet small(parameters, {.blocks = {1, 1, 1, 1}, .bottleneck = false, .classes = 10, .small_images = true});
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/recompute_way.hpp>

namespace headroom::nn {

struct ResNetOptions {
    std::array<std::int64_t, 4> blocks{3, 4, 6, 3};  ///< in each of the four stages
    bool bottleneck = true;                          ///< three convolutions per block; false: two
    std::int64_t classes = 1000;                     ///< 0: only the stages, without `fc`
    std::int64_t channels = 3;                       ///< of the images
    std::int64_t width = 64;                         ///< channels after the first convolution
    /// Uses a 3 x 3 first convolution with stride 1 and no pooling, for images of about 32 pixels (section 4.2).
    bool small_images = false;
    /// Norms use their running statistics, which never change: for a pretrained backbone.
    bool frozen_norms = false;
    /// Epsilon of the norms. torchvision's detectors trained on COCO use 0.
    double norm_epsilon = 1e-5;

    static ResNetOptions resnet18() { return {.blocks = {2, 2, 2, 2}, .bottleneck = false}; }
    static ResNetOptions resnet34() { return {.blocks = {3, 4, 6, 3}, .bottleneck = false}; }
    static ResNetOptions resnet50() { return {}; }
    static ResNetOptions resnet101() { return {.blocks = {3, 4, 23, 3}}; }
    static ResNetOptions resnet152() { return {.blocks = {3, 8, 36, 3}}; }
};

/// relu(x + branch(x)). The branch has two 3 x 3 convolutions, or 1 x 1, 3 x 3 and 1 x 1, the last one to four times
/// the channels; x passes through a 1 x 1 convolution if its shape differs.
class ResNetBlock : public Module<ResNetBlock> {
  public:
    ResNetBlock(const Path& path, std::int64_t in, std::int64_t width, std::int64_t stride,
                const ResNetOptions& options);
    /// x [N, in, H, W] -> [N, width or 4 width, H / stride, W / stride].
    Tensor forward(Tensor x) const;

    Conv2d conv1;
    BatchNorm2d bn1;
    Conv2d conv2;
    BatchNorm2d bn2;
    std::optional<Conv2d> conv3;
    std::optional<BatchNorm2d> bn3;
    std::optional<Conv2d> shortcut;
    std::optional<BatchNorm2d> shortcut_norm;
};

class ResNet : public Module<ResNet> {
  public:
    /// Initialised as in torchvision: convolutions Kaiming normal by fan_out, norms 1 and 0. Errors: ShapeError for
    /// sizes below 1.
    ResNet(const Path& path, const ResNetOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();

    /// Images [N, channels, H, W] -> logits [N, classes]. Errors: ShapeError if the images are too small; Error if
    /// `classes` is 0.
    Tensor forward(Tensor images) const;
    /// The outputs of the four stages, with H / 4 to H / 32 rows.
    std::array<Tensor, 4> features(Tensor images) const;

    ResNetOptions options;
    Conv2d conv1;
    BatchNorm2d bn1;
    std::array<std::vector<ResNetBlock>, 4> layers;
    std::optional<Linear> fc;

  private:
    Tensor stem(Tensor images) const;
    Tensor stage(std::size_t index, Tensor x) const;
};

}  // namespace headroom::nn
