#pragma once
// The networks of train_images under one type: torchvision's by their names, a small ResNet for images of some 28
// pixels, and a multi-layer perceptron.
//
//     Classifier model(nn::Path(parameters), "resnet50", /*image=*/{3, 224, 224}, /*classes=*/10);
//     program::load_weights(flags, "resnet50.safetensors", parameters, head_of("resnet50"), /*classes=*/10);
//     Tensor logits = model(images);
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <headroom/examples/images/perceptron.hpp>
#include <headroom/examples/program/weights.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/vgg.hpp>

namespace headroom::images {

using ConvolutionalOptions = std::variant<nn::ResNetOptions, nn::VggOptions>;

inline nn::VggOptions with_norms(nn::VggOptions options) {
    options.batch_norm = true;
    return options;
}

inline const std::vector<std::pair<std::string, ConvolutionalOptions>>& convolutional_models() {
    using nn::ResNetOptions;
    using nn::VggOptions;
    static const std::vector<std::pair<std::string, ConvolutionalOptions>> all{
        {"small", ResNetOptions{.blocks = {1, 1, 1, 1}, .bottleneck = false, .width = 16, .small_images = true}},
        {"resnet18", ResNetOptions::resnet18()},
        {"resnet34", ResNetOptions::resnet34()},
        {"resnet50", ResNetOptions::resnet50()},
        {"resnet101", ResNetOptions::resnet101()},
        {"resnet152", ResNetOptions::resnet152()},
        {"vgg11", VggOptions::vgg11()},
        {"vgg13", VggOptions::vgg13()},
        {"vgg16", VggOptions::vgg16()},
        {"vgg19", VggOptions::vgg19()},
        {"vgg11_bn", with_norms(VggOptions::vgg11())},
        {"vgg13_bn", with_norms(VggOptions::vgg13())},
        {"vgg16_bn", with_norms(VggOptions::vgg16())},
        {"vgg19_bn", with_norms(VggOptions::vgg19())}};
    return all;
}

inline const ConvolutionalOptions& options_of(const std::string& model) {
    using Named = std::pair<std::string, ConvolutionalOptions>;
    return std::ranges::find(convolutional_models(), model, &Named::first)->second;
}

/// What `Classifier` knows: "mlp", "small", "resnet18", "vgg16_bn" and so on.
inline std::vector<std::string> model_names() {
    std::vector<std::string> names{"mlp"};
    for (const auto& [name, options] : convolutional_models()) names.push_back(name);
    return names;
}

/// Whether it is one of torchvision's, which begin with three channels.
inline bool is_torchvisions(const std::string& model) { return model != "small" && model != "mlp"; }

/// The least height and width of images in pixels: what is halved five times (by the small one three times) is still
/// one pixel then.
inline std::int64_t least_size(const std::string& model) { return model == "mlp" ? 1 : model == "small" ? 8 : 32; }

/// The last layer, by its names in torchvision's files.
inline program::Head head_of(const std::string& model) {
    const bool vgg = model.starts_with("vgg");
    const std::string layer = vgg ? "classifier.6." : "fc.";
    return {.bias = layer + "bias", .layers = {layer}};
}

class Classifier {
  public:
    /// `model` is among `model_names`, `image` is [channels, height, width]. Errors: as the model.
    Classifier(const nn::Path& path, const std::string& model, const Shape& image, std::int64_t classes,
               const PerceptronOptions& perceptron = {})
        : model_(make(path, model, image, classes, perceptron)) {}

    /// [N, channels, height, width] -> logits [N, classes].
    Tensor operator()(const Tensor& images) const {
        return std::visit([&](const auto& model) { return model(images); }, model_);
    }

  private:
    using Model = std::variant<Perceptron, nn::ResNet, nn::Vgg>;

    static Model make(const nn::Path& path, const std::string& name, const Shape& image, std::int64_t classes,
                      const PerceptronOptions& perceptron) {
        if (name == "mlp") return Perceptron(path, image.numel(), classes, perceptron);
        const auto make_of = [&](auto options) -> Model {
            options.channels = image[0];
            options.classes = classes;
            using Net = std::conditional_t<std::is_same_v<decltype(options), nn::VggOptions>, nn::Vgg, nn::ResNet>;
            return Net(path, options);
        };
        return std::visit(make_of, options_of(name));
    }

    Model model_;
};

}  // namespace headroom::images
