// The code that docs/models.md shows, on small models.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/bert_names.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom {
namespace models_test {

namespace fs = std::filesystem;

class Models : public ::testing::Test {
  protected:
    ~Models() override { fs::remove_all(folder); }

    /// The weights of such a model, as they are initialised.
    template <class Model, class Options>
    void publish(const Options& options) {
        Parameters parameters(context);
        const Model published(parameters, options);
        files::save_parameters(file, parameters);
    }

    const fs::path folder =
        fs::path(testing::TempDir()) /
        fmt::format("headroom_models_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    const fs::path file = (fs::create_directories(folder), folder / "published.safetensors");
    const fs::path mine = folder / "mine.safetensors";
    Context context = Context::cpu({.threads = 2});
};

TEST_F(Models, ResNetFromWeightsForOtherClasses) {
    publish<nn::ResNet>(nn::ResNetOptions::resnet18());
    const Tensor images = randn(context, {2, 64, 64, 3}).permute({0, 3, 1, 2});
    const Tensor labels = randint(context, 0, 4, {2});

    nn::ResNetOptions options = nn::ResNetOptions::resnet18();
    options.classes = 4;
    Parameters parameters(context);
    const nn::ResNet model(parameters, options);
    const files::LoadReport report =
        files::load_parameters(files::SafetensorsFile(file), parameters, {.skip_other_shapes = true});
    for (const std::string& name : report.other_shape) fmt::print("as initialised: {}\n", name);
    parameters.freeze("layer1.**");  // neither gradients nor moments
    for (const char* blocks : {"layer2.*", "layer3.*", "layer4.*"}) {
        context.policy(blocks, recompute_all());  // or recompute_cheap(): norms and the like
    }
    backward(cross_entropy(model(images), labels).mean());
    files::save_parameters(mine, parameters);

    EXPECT_EQ(report.other_shape, (std::vector<std::string>{"fc.weight", "fc.bias"}));
    EXPECT_TRUE(model.fc->weight.grad().defined());
    EXPECT_FALSE(parameters.at("layer1.0.conv1.weight").tensor.grad().defined());
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), files::SafetensorsFile(file).entries().size());
}

TEST_F(Models, VggIsRehearsed) {
    Context context = Context::dry(Profile::gpu(std::size_t{11} << 30));  // a GPU that is not there
    nn::VggOptions options = nn::VggOptions::vgg16();
    options.batch_norm = true;
    Parameters parameters(context);
    const nn::Vgg model(parameters, options);
    const Tensor images = randn(context, {32, 224, 224, 3}).permute({0, 3, 1, 2});  // channels-last in memory
    backward(cross_entropy(model(images), randint(context, 0, 1000, {32})).mean());
    fmt::print("weights, gradients and activations: {} bytes\n", context.memory().statistics().peak_allocated);

    const auto weights = static_cast<std::size_t>(4 * parameters.count());
    EXPECT_GT(context.memory().statistics().peak_allocated, 2 * weights);
}

TEST_F(Models, UNetHasAClassPerPixel) {
    publish<nn::UNet>(nn::UNetOptions{.channels = 3, .classes = 2, .width = 4});
    const Tensor images = randn(context, {1, 35, 50, 3}).permute({0, 3, 1, 2});
    const Tensor masks = randint(context, 0, 2, {1, 35, 50});

    Parameters parameters(context);
    const nn::UNet model(parameters, nn::unet_sizes(file));  // without a file: {.classes = 2}, {.bilinear = true}
    files::load_parameters(files::SafetensorsFile(file), parameters);
    context.policy("", recompute_cheap());
    const Tensor logits = model(images);  // [1, 2, 35, 50]
    backward(cross_entropy(logits.permute({0, 2, 3, 1}), masks).mean());
    files::save_parameters(mine, parameters);

    EXPECT_EQ(logits.shape(), (Shape{1, 2, 35, 50}));
    EXPECT_TRUE(model.outc.weight.grad().defined());
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), files::SafetensorsFile(file).entries().size());
}

TEST_F(Models, MaskRcnnLearnsAndDetects) {
    publish<nn::MaskRcnn>(nn::MaskRcnnOptions{.boxes = {.body = nn::ResNetOptions::resnet18(), .pyramid = 32}});
    const Tensor images = randn(context, {1, 64, 64, 3}).permute({0, 3, 1, 2});
    const Tensor boxes = context.from_host(std::vector<float>{8, 8, 40, 40, 0, 0, 0, 0}, {1, 2, 4});
    const Tensor labels = context.from_host(std::vector<std::int64_t>{1, 0}, {1, 2});
    const Tensor masks = ones(context, {1, 2, 64, 64});

    nn::MaskRcnnOptions options{.boxes = {.body = nn::ResNetOptions::resnet18(), .classes = 4, .pyramid = 32}};
    options.boxes.proposals.sizes = {8, 16, 32, 64, 128};  // of anchors, for images of some 128 pixels
    options.boxes.regions = 64;                            // of an image that the second stage learns from
    Parameters parameters(context);
    const nn::MaskRcnn model(parameters, options);
    files::load_parameters(files::SafetensorsFile(file), parameters, {.skip_other_shapes = true});
    context.policy("backbone.body.*.*", recompute_all());
    backward(model.loss(images, boxes, labels, masks).mean());  // labels below 1: no object in this place
    const nn::Detections found = model.detect(images);          // boxes [1, 100, 4], masks [1, 100, 28, 28]
    files::save_parameters(mine, parameters);

    EXPECT_EQ(found.boxes.shape(), (Shape{1, 100, 4}));
    EXPECT_EQ(found.masks.shape(), (Shape{1, 100, 28, 28}));
    EXPECT_TRUE(parameters.at("backbone.body.conv1.weight").tensor.grad().defined());
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), files::SafetensorsFile(file).entries().size());
}

TEST_F(Models, LstmFromWeightsOfPyTorchs) {
    publish<nn::Lstm>(nn::RecurrentNetOptions{.in = 8, .width = 16, .layers = 2});
    const Tensor x = randn(context, {50, 3, 8});

    Parameters parameters(context);
    const nn::Lstm net(parameters, {.in = 8, .width = 16, .layers = 2, .dropout = 0.1, .checkpoint = kSqrtOfTime});
    files::load_parameters(files::SafetensorsFile(file), parameters);  // of nn.LSTM(8, 16, 2): weight_ih_l0, ...
    const auto [y, state] = net(x);                                    // [50, 3, 8] -> [50, 3, 16]; h and c [2, 3, 16]
    backward(mean(square(y)));
    files::save_parameters(mine, parameters);

    EXPECT_EQ(y.shape(), (Shape{50, 3, 16}));
    EXPECT_EQ(state.c.shape(), (Shape{2, 3, 16}));
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), 8);
    EXPECT_NE(files::SafetensorsFile(mine).find("weight_ih_l0"), nullptr);
}

TEST_F(Models, BertFromAFileOfHuggingFace) {
    const fs::path file = test::source_path("tests/reference/bert_initial.safetensors");
    const Tensor ids = randint(context, 0, 13, {2, 9}), targets = randint(context, 0, 13, {2, 9});

    Parameters parameters(context);
    const nn::BertForMaskedLm model(parameters, nn::bert_sizes(file));
    nn::load_bert(file, parameters);
    context.policy("bert.encoder.layers.*", recompute_all());
    backward(model.loss(ids, targets).mean());  // targets: -100 where nothing is asked
    nn::save_bert(mine, parameters);

    EXPECT_TRUE(model.bias.grad().defined());
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), files::SafetensorsFile(file).entries().size());
}

TEST_F(Models, GptFromAFileOfHuggingFace) {
    const fs::path file = test::source_path("tests/reference/gpt_initial.safetensors");
    const Tensor ids = randint(context, 0, 11, {2, 8}), targets = randint(context, 0, 11, {2, 8});

    Parameters parameters(context);
    nn::Gpt model(parameters, nn::gpt2_sizes(file));
    nn::load_gpt2(file, model);
    context.policy("blocks.*", recompute_all());
    backward(model.loss(ids, targets).mean());
    nn::save_gpt2(mine, model);

    EXPECT_TRUE(parameters.at("tokens.weight").tensor.grad().defined());
    EXPECT_EQ(files::SafetensorsFile(mine).entries().size(), files::SafetensorsFile(file).entries().size());
}

}  // namespace models_test
}  // namespace headroom
