#pragma once
// The networks of train_images under one type, by their names in torchvision, and a small ResNet for images of some 28
// pixels.
//
//     Classifier model(nn::Path(parameters), "resnet50", /*channels=*/3, /*classes=*/10);
//     load_torchvision("resnet50.safetensors", parameters, "resnet50", /*classes=*/10);
//     Tensor logits = model(images);
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

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

/// True if the last layer in a file of torchvision's weights has another number of classes, or is not there. Errors:
/// FileError if it is no such file.
bool other_head(const std::filesystem::path& file, const std::string& model, std::int64_t classes);

/// Fills all parameters and buffers from such a file, but for the last layer if that is another one, and counts of
/// batches that old files lack. Errors: FileError for a damaged file; Error that names the first tensor which is
/// missing, left over or of another size, and how many: nothing is changed then.
void load_torchvision(const std::filesystem::path& file, Parameters& parameters, const std::string& model,
                      std::int64_t classes);

}  // namespace headroom::images
