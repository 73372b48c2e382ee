#pragma once
// VGG: plain stacks of 3 x 3 convolutions. Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for
// Large-Scale Image Recognition", arXiv:1409.1556. Parameters have torchvision's names ("features.28.weight",
// "classifier.6.bias").
//
//     nn::Vgg model(parameters, nn::VggOptions::vgg16());
//     Tensor logits = model(images);                              // [4, 3, 224, 224] -> [4, 1000]
//     nn::Vgg normed(parameters, {.convolutions = {1, 1, 2, 2, 2}, .batch_norm = true});   // VGG-11 with batch norm
#include <array>
#include <cstdint>
#include <vector>

#include <headroom/nn/batch_norm.hpp>
#include <headroom/nn/conv.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/recompute_way.hpp>

namespace headroom::nn {

struct VggOptions {
    std::array<std::int64_t, 5> convolutions{2, 2, 3, 3, 3};  ///< in each of the five stages
    bool batch_norm = false;
    std::int64_t classes = 1000;
    std::int64_t channels = 3;   ///< of the images
    std::int64_t width = 64;     ///< channels of the first stage; the others have 2, 4, 8 and 8 times this number
    std::int64_t hidden = 4096;  ///< features between the linear layers
    double dropout = 0.5;        ///< after the first two linear layers

    static VggOptions vgg11() { return {.convolutions = {1, 1, 2, 2, 2}}; }
    static VggOptions vgg13() { return {.convolutions = {2, 2, 2, 2, 2}}; }
    static VggOptions vgg16() { return {.convolutions = {2, 2, 3, 3, 3}}; }
    static VggOptions vgg19() { return {.convolutions = {2, 2, 4, 4, 4}}; }
};

class Vgg : public Module<Vgg> {
  public:
    /// Initialised as in torchvision: convolutions Kaiming normal by fan_out, linear layers normal with standard
    /// deviation 0.01, biases 0. Errors: ShapeError for sizes below 1.
    Vgg(const Path& path, const VggOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();
    /// Images [N, channels, H, W] -> logits [N, classes]; the output of the last stage is averaged to 7 x 7 pixels.
    /// Errors: ShapeError below 32 x 32 pixels.
    Tensor forward(Tensor images) const;

    VggOptions options;
    std::vector<Conv2d> convolutions;
    std::vector<BatchNorm2d> norms;  ///< one after each convolution, or none
    Linear fc1, fc2, fc3;
    Dropout drop1, drop2;
};

}  // namespace headroom::nn
