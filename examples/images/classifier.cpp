#include <headroom/examples/images/classifier.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace headroom::images {

namespace {

using Options = std::variant<nn::ResNetOptions, nn::VggOptions>;

nn::VggOptions with_norms(nn::VggOptions options) {
    options.batch_norm = true;
    return options;
}

const std::vector<std::pair<std::string, Options>>& models() {
    using nn::ResNetOptions;
    using nn::VggOptions;
    static const std::vector<std::pair<std::string, Options>> all{
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

const Options& options_of(const std::string& model) {
    return std::ranges::find(models(), model, &std::pair<std::string, Options>::first)->second;
}

}  // namespace

std::vector<std::string> model_names() {
    std::vector<std::string> names;
    for (const auto& [name, options] : models()) names.push_back(name);
    return names;
}

std::int64_t least_size(const std::string& model) { return model == "small" ? 8 : 32; }

Classifier::Classifier(const nn::Path& path, const std::string& model, std::int64_t channels, std::int64_t classes)
    : model_(std::visit(
          [&](auto options) -> std::variant<nn::ResNet, nn::Vgg> {
              options.channels = channels;
              options.classes = classes;
              using Model = std::conditional_t<std::is_same_v<decltype(options), nn::VggOptions>, nn::Vgg, nn::ResNet>;
              return Model(path, options);
          },
          options_of(model))) {}

Tensor Classifier::operator()(const Tensor& images) const {
    return std::visit([&](const auto& model) { return model(images); }, model_);
}

program::Head head_of(const std::string& model) {
    const std::string layer = std::holds_alternative<nn::VggOptions>(options_of(model)) ? "classifier.6." : "fc.";
    return {.bias = layer + "bias", .layers = {layer}};
}

}  // namespace headroom::images
