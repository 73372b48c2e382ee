#pragma once
// The networks of train_images under one type, by their names in torchvision, and a small ResNet for images of some 28
// pixels.
//
//     Classifier model(nn::Path(parameters), "resnet50", /*channels=*/3, /*classes=*/10);
//     program::load_weights("resnet50.safetensors", parameters, head_of("resnet50"), /*classes=*/10);
//     Tensor logits = model(images);
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <headroom/examples/program/weights.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/vgg.hpp>

namespace headroom::images {

/// What `Classifier` knows: "small", "resnet18", "vgg16_bn" and so on.
std::vector<std::string> model_names();

/// The least height and width of images in pixels: what is halved five times (by the small one three times) is still
/// one pixel then.
std::int64_t least_size(const std::string& model);

class Classifier {
  public:
    /// `model` is among `model_names`. Errors: as the model.
    Classifier(const nn::Path& path, const std::string& model, std::int64_t channels, std::int64_t classes);
    /// [N, channels, H, W] -> logits [N, classes].
    Tensor operator()(const Tensor& images) const;

  private:
    std::variant<nn::ResNet, nn::Vgg> model_;
};

/// The last layer, by its names in torchvision's files.
program::Head head_of(const std::string& model);

}  // namespace headroom::images
