// The code that docs/models.md shows, on small models.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/nn/checkpoint.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>

namespace headroom {
namespace {

TEST(Models, ResNetFromWeightsForOtherClasses) {
    const auto file = std::filesystem::path(testing::TempDir()) / "headroom_models_resnet18.safetensors";
    Context context = Context::cpu({.threads = 2});
    {
        Parameters parameters(context);
        const nn::ResNet published(parameters, nn::ResNetOptions::resnet18());
        nn::save_parameters(file, parameters);
    }
    const Tensor images = randn(context, {2, 64, 64, 3}).permute({0, 3, 1, 2});
    const Tensor labels = randint(context, 0, 4, {2});

    nn::ResNetOptions options = nn::ResNetOptions::resnet18();
    options.classes = 4;
    Parameters parameters(context);
    const nn::ResNet model(parameters, options);
    const nn::LoadReport report =
        nn::load_parameters(nn::SafetensorsFile(file), parameters, {.skip_other_shapes = true});
    for (const std::string& name : report.other_shape) fmt::print("as initialised: {}\n", name);
    parameters.freeze("layer1.**");  // neither gradients nor moments
    for (const char* blocks : {"layer2.*", "layer3.*", "layer4.*"}) {
        context.policy(blocks, recompute_all());  // or recompute_cheap(): norms and the like
    }
    backward(cross_entropy(model(images), labels).mean());

    EXPECT_EQ(report.other_shape, (std::vector<std::string>{"fc.weight", "fc.bias"}));
    EXPECT_TRUE(model.fc->weight.grad().defined());
    EXPECT_FALSE(parameters.at("layer1.0.conv1.weight").tensor.grad().defined());
    std::filesystem::remove(file);
}

TEST(Models, UNetHasAClassPerPixel) {
    Context context = Context::cpu({.threads = 2});
    const Tensor images = randn(context, {1, 35, 50, 3}).permute({0, 3, 1, 2});
    const Tensor masks = randint(context, 0, 2, {1, 35, 50});

    Parameters parameters(context);
    const nn::UNet model(parameters, {.channels = 3, .classes = 2, .width = 4});
    const Tensor logits = model(images);  // [1, 2, 35, 50]
    backward(cross_entropy(logits.permute({0, 2, 3, 1}), masks).mean());

    EXPECT_EQ(logits.shape(), (Shape{1, 2, 35, 50}));
    EXPECT_TRUE(model.outc.weight.grad().defined());
}

TEST(Models, MaskRcnnLearnsAndDetects) {
    Context context = Context::cpu({.threads = 2});
    const Tensor images = randn(context, {1, 64, 64, 3}).permute({0, 3, 1, 2});
    const Tensor boxes = context.from_host(std::vector<float>{8, 8, 40, 40, 0, 0, 0, 0}, {1, 2, 4});
    const Tensor labels = context.from_host(std::vector<std::int64_t>{1, 0}, {1, 2});
    const Tensor masks = ones(context, {1, 2, 64, 64});

    nn::MaskRcnnOptions options{.boxes = {.body = nn::ResNetOptions::resnet18(), .classes = 4, .pyramid = 32}};
    options.boxes.proposals.sizes = {8, 16, 32, 64, 128};  // of anchors, for images of some 128 pixels
    options.boxes.regions = 64;                            // of an image that the second stage learns from
    Parameters parameters(context);
    const nn::MaskRcnn model(parameters, options);
    backward(model.loss(images, boxes, labels, masks).mean());  // labels below 1: no object in this place
    const nn::Detections found = model.detect(images);          // boxes [1, 100, 4], masks [1, 100, 28, 28]

    EXPECT_EQ(found.boxes.shape(), (Shape{1, 100, 4}));
    EXPECT_EQ(found.masks.shape(), (Shape{1, 100, 28, 28}));
    EXPECT_TRUE(parameters.at("backbone.body.conv1.weight").tensor.grad().defined());
}

}  // namespace
}  // namespace headroom
