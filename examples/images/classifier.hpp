#pragma once
// The networks of train_images under one type: torchvision's by their names, a small ResNet for images of some 28
// pixels, and a multi-layer perceptron.
//
//     Classifier model(nn::Path(parameters), "resnet50", /*image=*/{3, 224, 224}, /*classes=*/10);
//     cli::load_weights(flags, "resnet50.safetensors", parameters, head_of("resnet50"), /*classes=*/10);
//     Tensor logits = model(images);
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <headroom/examples/cli/weights.hpp>
#include <headroom/examples/images/perceptron.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/vgg.hpp>

namespace headroom::images {

inline nn::VggOptions with_norms(nn::VggOptions options) {
    options.batch_norm = true;
    return options;
}

struct ConvolutionalModel {
    std::string name;
    std::variant<nn::ResNetOptions, nn::VggOptions> options;
    bool has_peer = false;  ///< bench/peers trains it in PyTorch
};

inline const std::vector<ConvolutionalModel>& convolutional_models() {
    using nn::ResNetOptions;
    using nn::VggOptions;
    static const std::vector<ConvolutionalModel> all{
        {"small", ResNetOptions{.blocks = {1, 1, 1, 1}, .bottleneck = false, .width = 16, .small_images = true}},
        {"resnet18", ResNetOptions::resnet18(), true},
        {"resnet34", ResNetOptions::resnet34(), true},
        {"resnet50", ResNetOptions::resnet50(), true},
        {"resnet101", ResNetOptions::resnet101(), true},
        {"resnet152", ResNetOptions::resnet152(), true},
        {"vgg11", VggOptions::vgg11()},
        {"vgg13", VggOptions::vgg13()},
        {"vgg16", VggOptions::vgg16(), true},
        {"vgg19", VggOptions::vgg19()},
        {"vgg11_bn", with_norms(VggOptions::vgg11())},
        {"vgg13_bn", with_norms(VggOptions::vgg13())},
        {"vgg16_bn", with_norms(VggOptions::vgg16()), true},
        {"vgg19_bn", with_norms(VggOptions::vgg19())}};
    return all;
}

/// The network of such options.
template <class Options>
using NetworkOf = std::conditional_t<std::is_same_v<Options, nn::VggOptions>, nn::Vgg, nn::ResNet>;

inline const ConvolutionalModel& convolutional(const std::string& model) {
    return *std::ranges::find(convolutional_models(), model, &ConvolutionalModel::name);
}

/// What `Classifier` knows: "mlp", "small", "resnet18", "vgg16_bn" and so on.
inline std::vector<std::string> model_names() {
    std::vector<std::string> names{"mlp"};
    for (const ConvolutionalModel& model : convolutional_models()) names.push_back(model.name);
    return names;
}

inline nn::RecomputeWays recompute_ways(const std::string& model) {
    if (model == "mlp") return Perceptron::recompute_ways();
    return std::visit([]<class Options>(const Options&) { return NetworkOf<Options>::recompute_ways(); },
                      convolutional(model).options);
}

/// Whether it is one of torchvision's, which begin with three channels.
inline bool is_torchvisions(const std::string& model) { return model != "small" && model != "mlp"; }

/// The least height and width of images in pixels: what is halved five times (by the small one three times) is still
/// one pixel then.
inline std::int64_t least_size(const std::string& model) { return model == "mlp" ? 1 : model == "small" ? 8 : 32; }

/// The last layer, by its names in torchvision's files.
inline cli::Head head_of(const std::string& model) {
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
        const auto make_of = [&]<class Options>(Options options) -> Model {
            options.channels = image[0];
            options.classes = classes;
            return NetworkOf<Options>(path, options);
        };
        return std::visit(make_of, convolutional(name).options);
    }

    Model model_;
};

}  // namespace headroom::images
