// ResNet, VGG and U-Net against PyTorch's: losses, every gradient of the first step, every parameter and statistic
// after three steps, logits in evaluation; and the names and shapes of all the published sizes.
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace image_models_reference_test {

using Forward = std::function<Tensor(Tensor)>;
using Make = std::function<Forward(Parameters&)>;

template <class Model, class Options>
Make make(const Options& options) {
    return [options](Parameters& parameters) -> Forward {
        return
            [model = std::make_shared<Model>(Path(parameters), options)](Tensor x) { return (*model)(std::move(x)); };
    };
}

struct Case {
    std::string name;
    Make model;
    std::vector<std::string> frozen{};
};

const std::vector<Case> kCases{
    {"resnet_basic",
     make<ResNet>(ResNetOptions{.blocks = {2, 1, 1, 1}, .bottleneck = false, .classes = 5, .width = 3})},
    {"resnet_bottleneck", make<ResNet>(ResNetOptions{.blocks = {1, 2, 1, 1}, .classes = 5, .width = 2})},
    {"resnet_frozen",
     make<ResNet>(ResNetOptions{.blocks = {1, 1, 1, 1}, .bottleneck = false, .classes = 5, .width = 2}),
     {"conv1.*", "bn1.*", "layer1.**"}},
    {"resnet_frozen_norms",
     make<ResNet>(
         ResNetOptions{.blocks = {1, 1, 1, 1}, .bottleneck = false, .classes = 5, .width = 1, .frozen_norms = true})},
    {"vgg",
     make<Vgg>(VggOptions{.convolutions = {1, 1, 2, 2, 2}, .classes = 5, .width = 2, .hidden = 6, .dropout = 0})},
    {"vgg_bn",
     make<Vgg>(VggOptions{
         .convolutions = {2, 1, 1, 1, 2}, .batch_norm = true, .classes = 5, .width = 2, .hidden = 6, .dropout = 0})},
    {"unet", make<UNet>(UNetOptions{.classes = 3, .width = 1})},
    {"unet_bilinear", make<UNet>(UNetOptions{.classes = 3, .width = 2, .bilinear = true})},
};

using Doubles = std::vector<double>;

/// Between what is to be and what is, by the norm of all tensors of one kind.
struct Difference {
    double squares = 0, error_squares = 0;

    void add(const std::string& name, const Doubles& got, const Doubles& want) {
        ASSERT_EQ(got.size(), want.size()) << name;
        for (std::size_t i = 0; i < got.size(); ++i) {
            const double error = got[i] - want[i];
            squares += want[i] * want[i];
            error_squares += error * error;
        }
    }
    double absolute() const { return std::sqrt(error_squares); }
    double relative() const { return std::sqrt(error_squares / squares); }
};

class Comparison {
  public:
    Comparison(const Case& what, Dtype dtype)
        : file_(test::source_path("tests/reference/" + what.name + ".safetensors")),
          context_(Context::cpu({.threads = 2})),
          parameters_(context_, {.dtype = dtype}),
          model_(what.model(parameters_)) {
        for (const Parameter& parameter : parameters_.all())
            parameters_.set(parameter.path, file_.at("initial/" + parameter.path).values);
        for (const std::string& pattern : what.frozen) parameters_.freeze(pattern);
    }

    /// Three steps, then evaluation.
    void expect() {
        optim::Sgd optimizer(parameters_, {.momentum = 0.9});
        optim::GradientAccumulator accumulator(parameters_, optimizer, {.keep_gradients = true});
        for (std::int64_t step = 0; step < 3; ++step) {
            accumulator.accumulate([&] { return loss(step); });
            accumulator.step(0.01);
            const optim::StepResult result = accumulator.result();
            expect("loss", {result.loss}, {file_.at("losses").values[static_cast<std::size_t>(step)]});
            if (step == 0) expect_gradients(result.multiplier);
        }
        Difference state;
        for (const Parameter& parameter : parameters_.all())
            state.add(parameter.path, parameter.tensor.to_vector<double>(),
                      file_.at("trained/" + parameter.path).values);
        expect("state", state);
        parameters_.train(false);
        const NoGradGuard no_grad(context_);
        expect("evaluated", model_(images(0).slice(0, 0, 1)).to_vector<double>(), file_.at("evaluated").values);
    }
    Parameters& parameters() { return parameters_; }
    const test::Reference& file() const { return file_; }

  private:
    /// f64 to 1e-10. In f32, to first order, the relative error is at most an epsilon for each rounding on the longest
    /// way through the model and back, three times, where a sum of n terms counts for n.
    void expect(const std::string& kind, const Difference& all) const {
        if (parameters_.dtype() == Dtype::f64) {
            EXPECT_LE(all.absolute(), 1e-10) << kind;
        } else {
            EXPECT_LE(all.relative(), 3 * 2 * roundings() * epsilon(Dtype::f32)) << kind;
        }
    }
    void expect(const std::string& kind, const Doubles& got, const Doubles& want) const {
        Difference all;
        all.add(kind, got, want);
        expect(kind, all);
    }
    void expect_gradients(double multiplier) const {
        Difference all;
        for (const Parameter& parameter : parameters_.all()) {
            const std::string name = "gradient/" + parameter.path;
            EXPECT_EQ(parameter.tensor.grad().defined(), file_.has(name)) << name;
            if (!parameter.trained) continue;
            Doubles gradient = parameter.tensor.grad().to_vector<double>();
            for (double& x : gradient) x *= multiplier;
            all.add(name, gradient, file_.at(name).values);
        }
        expect("gradients", all);
    }

    /// Of the products of all layers.
    double roundings() const {
        double all = 0;
        for (const Parameter& parameter : parameters_.all()) {
            const Tensor& x = parameter.tensor;
            if (x.rank() > 1) all += static_cast<double>(x.numel() / x.size(0));
        }
        return all;
    }

    template <class T, class Convert>
    Tensor given(const std::string& name, std::int64_t step, const Convert& convert) {
        const test::ReferenceTensor& all = file_.at(name);
        Shape shape = all.shape;
        shape.erase(0);
        std::vector<T> values;
        for (std::int64_t i = 0; i < shape.numel(); ++i)
            values.push_back(convert(all.values[static_cast<std::size_t>(step * shape.numel() + i)]));
        return context_.from_host(values, shape);
    }
    Tensor images(std::int64_t step) {
        const auto scaled = [](double x) { return (x - 128) / 64; };
        return parameters_.dtype() == Dtype::f64 ? given<double>("images", step, scaled)
                                                 : given<float>("images", step, scaled);
    }
    Loss loss(std::int64_t step) {
        const Tensor targets = given<std::int64_t>("targets", step, [](double x) { return x; });
        Tensor logits = model_(images(step));
        return cross_entropy(logits.rank() == 4 ? logits.permute({0, 2, 3, 1}) : logits, targets);
    }

    test::Reference file_;
    Context context_;
    Parameters parameters_;
    Forward model_;
};

class ImageModelsReference : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, ImageModelsReference, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(ImageModelsReference, ThreeStepsArePyTorchs) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
        SCOPED_TRACE(name(dtype));
        Comparison(GetParam(), dtype).expect();
    }
}

TEST_P(ImageModelsReference, FilesHaveAllTensorsOfPyTorchsState) {
    Comparison comparison(GetParam(), Dtype::f32);
    const test::ScratchFolder folder;
    files::save_parameters(folder.path() / "mine.safetensors", comparison.parameters());
    const files::SafetensorsFile mine(folder.path() / "mine.safetensors");
    std::size_t theirs = 0;
    for (const auto& [name, tensor] : comparison.file().all()) theirs += name.starts_with("initial/") ? 1 : 0;
    EXPECT_EQ(mine.entries().size(), theirs);
    for (const files::SafetensorsEntry& entry : mine.entries()) {
        ASSERT_TRUE(comparison.file().has("initial/" + entry.name)) << entry.name;
        const test::ReferenceTensor& want = comparison.file().at("initial/" + entry.name);
        EXPECT_EQ(entry.shape, want.shape) << entry.name;
        EXPECT_EQ(entry.dtype, want.dtype == "I64" ? Dtype::i64 : Dtype::f32) << entry.name;
    }
    Context context = Context::cpu({.threads = 1, .seed = 3});
    Parameters parameters(context);
    const Forward model = GetParam().model(parameters);
    EXPECT_EQ(files::load_parameters(mine, parameters).loaded.size(), theirs);
    for (const Parameter& parameter : parameters.all())
        EXPECT_EQ(parameter.tensor.to_vector<double>(), comparison.file().at("initial/" + parameter.path).values);
}

/// All of "= MODEL", then "NAME [SHAPE]".
std::map<std::string, std::map<std::string, std::string>> published_names() {
    std::ifstream file(test::source_path("tests/reference/image_model_names.txt"));
    std::map<std::string, std::map<std::string, std::string>> all;
    std::string line, model;
    while (std::getline(file, line)) {
        if (line.starts_with("= "))
            model = line.substr(2);
        else
            all[model][line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
    }
    return all;
}

TEST(ImageModels, HaveThePublishedNamesAndShapes) {
    std::map<std::string, Make> models{{"resnet18", make<ResNet>(ResNetOptions::resnet18())},
                                       {"resnet34", make<ResNet>(ResNetOptions::resnet34())},
                                       {"resnet50", make<ResNet>(ResNetOptions::resnet50())},
                                       {"resnet101", make<ResNet>(ResNetOptions::resnet101())},
                                       {"resnet152", make<ResNet>(ResNetOptions::resnet152())},
                                       {"unet", make<UNet>(UNetOptions{})},
                                       {"unet_bilinear", make<UNet>(UNetOptions{.bilinear = true})}};
    const std::map<std::string, VggOptions> vggs{{"vgg11", VggOptions::vgg11()},
                                                 {"vgg13", VggOptions::vgg13()},
                                                 {"vgg16", VggOptions::vgg16()},
                                                 {"vgg19", VggOptions::vgg19()}};
    for (auto [name, options] : vggs) {
        models[name] = make<Vgg>(options);
        options.batch_norm = true;
        models[name + "_bn"] = make<Vgg>(options);
    }
    const auto published = published_names();
    ASSERT_EQ(published.size(), models.size());
    for (const auto& [name, model] : models) {
        Context context = Context::dry({});
        Parameters parameters(context);
        const Forward made = model(parameters);
        std::map<std::string, std::string> mine;
        for (const Parameter& each : parameters.all()) mine[each.path] = each.tensor.shape().to_string();
        EXPECT_EQ(mine, published.at(name)) << name;
    }
}

}  // namespace image_models_reference_test
}  // namespace headroom::nn
