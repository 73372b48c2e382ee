#include <headroom/examples/models/models.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/core/ops/recurrent.hpp>
#include <headroom/examples/images/classifier.hpp>
#include <headroom/examples/images/perceptron.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/unet.hpp>

namespace headroom::models {

namespace {

using MakeStep = std::function<Step(Parameters&, const Sizes&)>;

Tensor random_images(Context& context, const Sizes& sizes) {
    return randn(context, {sizes.batch, sizes.height, sizes.width, 3}).permute({0, 3, 1, 2});  // channels-last
}

/// A class for each image or, of U-Net, for each pixel.
template <class Network>
Step images_step(std::shared_ptr<Network> network, Context& context, const Sizes& sizes) {
    const Tensor images = random_images(context, sizes);
    constexpr bool per_pixel = std::is_same_v<Network, nn::UNet>;
    const Shape shape = per_pixel ? Shape{sizes.batch, sizes.height, sizes.width} : Shape{sizes.batch};
    const Tensor targets = randint(context, 0, sizes.classes, shape);
    return {{images, targets}, [network](const std::vector<Tensor>& inputs) {
                const Tensor logits = (*network)(inputs[0]);
                return cross_entropy(per_pixel ? logits.permute({0, 2, 3, 1}) : logits, inputs[1]);
            }};
}

template <class Network, class Options>
MakeStep class_step(Options options) {
    return [options](Parameters& parameters, const Sizes& sizes) mutable {
        options.classes = sizes.classes;
        return images_step(std::make_shared<Network>(parameters, options), parameters.context(), sizes);
    };
}

/// train_images' perceptron, without dropout.
Step mlp_step(Parameters& parameters, const Sizes& sizes) {
    const auto network =
        std::make_shared<images::Perceptron>(parameters, 3 * sizes.height * sizes.width, sizes.classes,
                                             images::PerceptronOptions{.layers = sizes.layers, .dropout = 0});
    return images_step(network, parameters.context(), sizes);
}

Loss of_whole_logits(const Tensor& logits, const Tensor& targets) {
    return cross_entropy(logits.reshape({targets.numel(), -1}), targets.reshape({-1}));
}

/// All tokens are asked for.
template <class Network, class Options>
Step text_step(Parameters& parameters, const Sizes& sizes, const Options& options) {
    const auto network = std::make_shared<Network>(parameters, options);
    const Tensor ids = randint(parameters.context(), 1, options.vocabulary, {sizes.batch, sizes.block});
    Step step{{ids}, [network](const std::vector<Tensor>& inputs) { return network->loss(inputs[0], inputs[0]); }};
    if constexpr (std::is_same_v<Network, nn::Gpt>) {
        step.loss_of_whole_logits = [network](const std::vector<Tensor>& inputs) {
            return of_whole_logits((*network)(inputs[0]), inputs[0]);
        };
    }
    return step;
}

/// Positions are at least as many as the published model has.
template <class Network, class Options>
Step published_step(Parameters& parameters, const Sizes& sizes) {
    Options options;
    options.block = std::max(options.block, sizes.block);
    return text_step<Network>(parameters, sizes, options);
}

Step gpt_step(Parameters& parameters, const Sizes& sizes) {
    return text_step<nn::Gpt>(parameters, sizes,
                              nn::GptOptions{.vocabulary = sizes.classes,
                                             .block = sizes.block,
                                             .layers = sizes.layers,
                                             .heads = std::max<std::int64_t>(sizes.width / 64, 1),
                                             .width = sizes.width});
}

/// A language model of two layers, 512 wide.
template <class Net>
struct RecurrentModel : nn::Module<RecurrentModel<Net>> {
    static constexpr std::int64_t kWidth = 512;

    RecurrentModel(const nn::Path& path, std::int64_t vocabulary)
        : nn::Module<RecurrentModel>(path),
          tokens(path / "tokens", vocabulary, kWidth),
          layers(path / "layers", {.in = kWidth, .width = kWidth, .layers = 2}),
          head(path / "head", kWidth, vocabulary, {.bias = false}) {}

    static nn::RecomputeWays recompute_ways() {
        return {{}, nn::cheap_way(), {"layers", "the gates, from some states"}};
    }
    /// ids [time, batch]
    Loss loss(const Tensor& ids) const {
        RegionScope scope(this->context(), this->path());
        return linear_cross_entropy(hidden(ids), head.weight, ids.reshape({-1}));
    }
    Loss loss_of_whole_logits(const Tensor& ids) const {
        RegionScope scope(this->context(), this->path());
        return cross_entropy(head(hidden(ids)), ids.reshape({-1}));
    }
    Tensor hidden(const Tensor& ids) const { return layers(tokens(ids)).output.reshape({-1, kWidth}); }

    nn::Embedding tokens;
    Net layers;
    nn::Linear head;
};

template <class Net>
Step recurrent_step(Parameters& parameters, const Sizes& sizes) {
    const auto network = std::make_shared<RecurrentModel<Net>>(parameters, sizes.classes);
    const Tensor ids = randint(parameters.context(), 0, sizes.classes, {sizes.block, sizes.batch});
    return {{ids},
            [network](const std::vector<Tensor>& inputs) { return network->loss(inputs[0]); },
            [network] { network->layers.options.checkpoint = kSqrtOfTime; },
            [network](const std::vector<Tensor>& inputs) { return network->loss_of_whole_logits(inputs[0]); }};
}

/// Ten objects an image, on a diagonal, with sides of a twentieth to half of the image's.
Step mask_rcnn_step(Parameters& parameters, const Sizes& sizes) {
    constexpr std::int64_t kObjects = 10;
    Context& context = parameters.context();
    const auto network =
        std::make_shared<nn::MaskRcnn>(parameters, nn::MaskRcnnOptions{.boxes = {.classes = sizes.classes}});
    std::vector<float> boxes;
    for (std::int64_t i = 0; i < sizes.batch * kObjects; ++i) {
        const auto begin = 0.05f * static_cast<float>(i % kObjects), end = 2 * begin + 0.05f;
        for (const float place : {begin, end})
            for (const std::int64_t side : {sizes.width, sizes.height})
                boxes.push_back(place * static_cast<float>(side));
    }
    return {{random_images(context, sizes), context.from_host(boxes, {sizes.batch, kObjects, 4}),
             randint(context, 1, sizes.classes, {sizes.batch, kObjects}),
             full(context, {sizes.batch, kObjects, sizes.height, sizes.width}, 1, Dtype::u8)},
            [network](const std::vector<Tensor>& inputs) {
                return network->loss(inputs[0], inputs[1], inputs[2], inputs[3]);
            }};
}

template <class Network, class Options>
Model classifier(const Options& options) {
    return {.samples = Samples::images, .ways = Network::recompute_ways(), .make = class_step<Network>(options)};
}

Model unet(const nn::UNetOptions& options) {
    return {.sizes = {.batch = 8, .height = 512, .width = 512, .classes = 2},
            .samples = Samples::images,
            .ways = nn::UNet::recompute_ways(),
            .make = class_step<nn::UNet>(options)};
}

Model mask_rcnn() {
    return {.sizes = {.batch = 2, .height = 800, .width = 1216, .classes = 91},
            .samples = Samples::images,
            .ways = nn::MaskRcnn::recompute_ways(),
            .make = mask_rcnn_step};
}

template <class Net>
Model recurrent() {
    return {.samples = Samples::sequences,
            .chunks_logits = true,
            .ways = RecurrentModel<Net>::recompute_ways(),
            .make = recurrent_step<Net>};
}

Model bert() {
    return {.sizes = {.block = 512},
            .samples = Samples::sequences,
            .ways = nn::BertForMaskedLm::recompute_ways(),
            .make = published_step<nn::BertForMaskedLm, nn::BertOptions>};
}

Model gpt() {
    return {.sizes = {.width = 256, .block = 256, .classes = 65},
            .samples = Samples::sequences,
            .ways = nn::Gpt::recompute_ways(),
            .make = gpt_step};
}

Model gpt2() {
    return {.sizes = {.block = 1024},
            .samples = Samples::sequences,
            .chunks_logits = true,
            .ways = nn::Gpt::recompute_ways(),
            .make = published_step<nn::Gpt, nn::GptOptions>};
}

Model mlp() {
    return {.sizes = {.height = 28, .width = 28, .classes = 10, .layers = 40},
            .samples = Samples::images,
            .ways = images::Perceptron::recompute_ways(),
            .make = mlp_step};
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
    std::vector<std::string> result;
    for (const T& one : all) result.push_back(one.name);
    return result;
}

/// A name that another one of `all` has as well; empty: there is none.
template <class T>
std::string name_of_two(const std::vector<T>& all) {
    for (const T& one : all) {
        if (std::ranges::count(all, one.name, &T::name) > 1) return one.name;
    }
    return "";
}

/// Errors: as `check`.
void check(const Model& model) {
    const std::string& name = model.name;
    if (name.empty() || name.front() == '-' || name.find(',') != std::string::npos || name == "all")
        throw Error(
            fmt::format("--model can't take the model name \"{}\"; use one that is not empty, does not begin with -, "
                        "has no comma and is not all",
                        name));
    if (!model.make == !model.task)
        throw Error(fmt::format("the model {} has {}; set exactly one of them", name,
                                model.make ? "both make and task" : "neither make nor task"));
    if (model.ways.empty() || !model.ways.front().policies.empty())
        throw Error(fmt::format(
            "the ways of the model {} do not begin with one that keeps all; put nn::RecomputeWay{{}} before the others",
            name));
    if (const std::string twice = name_of_two(model.ways); !twice.empty())
        throw Error(fmt::format("two ways of the model {} are called {}; give each a name of its own", name, twice));
    if (std::ranges::count(model.ways, "plan", &nn::RecomputeWay::name) > 0)
        throw Error(fmt::format(
            "a way of the model {} is called plan, which is the name of plans for a budget; give it another name",
            name));
    if (model.task && model.chunks_logits)
        throw Error(fmt::format("the model {} has chunks_logits, which a task can't show; leave it out", name));
}

}  // namespace

std::string plural(Samples samples) {
    return samples == Samples::images ? "images" : samples == Samples::sequences ? "sequences" : "samples";
}

const nn::RecomputeWay& Model::way(const std::string& name) const {
    const auto found = std::ranges::find(ways, name, &nn::RecomputeWay::name);
    if (found != ways.end()) return *found;
    throw Error(
        fmt::format("the model has no way of recomputing called {}; it has {}", name, fmt::join(names_of(ways), ", ")));
}

Sizes Model::completed(Sizes given) const {
    for (const auto size :
         {&Sizes::batch, &Sizes::height, &Sizes::width, &Sizes::block, &Sizes::classes, &Sizes::layers}) {
        if (given.*size == 0) given.*size = sizes.*size;
    }
    return given;
}

std::string Model::inputs(const Sizes& given) const {
    const std::string count = fmt::format("{} {}", given.batch, plural(samples));
    return samples == Samples::images      ? fmt::format("{} of {} x {}", count, given.height, given.width)
           : samples == Samples::sequences ? fmt::format("{} of {} tokens", count, given.block)
                                           : count;
}

const std::vector<Model>& all() {
    static const std::vector<Model> models = [] {
        std::map<std::string, Model> named{{"unet", unet({})},
                                           {"unet_bilinear", unet({.bilinear = true})},
                                           {"maskrcnn", mask_rcnn()},
                                           {"lstm", recurrent<nn::Lstm>()},
                                           {"gru", recurrent<nn::Gru>()},
                                           {"bert", bert()},
                                           {"gpt", gpt()},
                                           {"gpt2", gpt2()},
                                           {"mlp", mlp()}};
        for (const images::ConvolutionalModel& model : images::convolutional_models()) {
            if (!model.has_peer) continue;
            named[model.name] = std::visit(
                []<class Options>(const Options& options) { return classifier<images::NetworkOf<Options>>(options); },
                model.options);
        }
        std::vector<Model> result;
        for (auto& [name, model] : named) {
            model.name = name;
            model.has_peer = true;
            result.push_back(std::move(model));
        }
        return result;
    }();
    return models;
}

std::vector<std::string> names(const std::vector<Model>& models) { return names_of(models); }

const Model& named(const std::vector<Model>& models, const std::string& name) {
    const auto found = std::ranges::find(models, name, &Model::name);
    if (found != models.end()) return *found;
    throw Error(fmt::format("there is no model {}; the models are {}", name, fmt::join(names(models), ", ")));
}

void check(const std::vector<Model>& models) {
    if (models.empty()) throw Error("there is no model to compare; pass at least one");
    for (const Model& model : models) check(model);
    if (const std::string twice = name_of_two(models); !twice.empty())
        throw Error(fmt::format("two models are called {}; give each a name of its own", twice));
}

}  // namespace headroom::models
