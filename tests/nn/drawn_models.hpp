#pragma once
// Models of random sizes and options, each with its micro-batches and its loss, for models_search.hpp. One more model
// is one more entry of `search_models`.
//
//     Draw draw(seed, 100);
//     const SearchModel model = draw.of("model", search_models());
//     const DrawnModel drawn = model.make(parameters, draw);
//     Loss loss = drawn.loss(drawn.inputs(0));
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/gpt.hpp>
#include <headroom/nn/group_norm.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/low_rank.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/mask_rcnn.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>

namespace headroom::test {}

namespace headroom::nn::test {

using namespace headroom::test;  // what tests of all libraries share goes by test::, too

/// Numbers from a seed, and the text of what was drawn.
class Draw {
  public:
    /// `most`: sizes in a range, from its first on.
    Draw(std::uint64_t seed, std::int64_t most) : generator_(seed), most_(most) {}
    std::int64_t operator()(const char* what, std::int64_t first, std::int64_t last) {
        return first + choice(what, std::min(last - first + 1, most_));
    }
    std::int64_t choice(const char* what, std::int64_t count) {
        const auto value = static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(count));
        text_ += fmt::format(" {}={}", what, value);
        return value;
    }
    bool flag(const char* what) { return choice(what, 2) == 1; }
    template <class T>
    T of(const char* what, const std::vector<T>& choices) {
        return choices[static_cast<std::size_t>(choice(what, std::ssize(choices)))];
    }
    void say(const std::string& text) { text_ += ' ' + text; }
    const std::string& text() const { return text_; }

  private:
    std::mt19937_64 generator_;
    std::int64_t most_;
    std::string text_;
};

/// A model of sizes that were drawn: what a micro-batch gives it, by its number, and the loss of that. Each has
/// parameters of its own, and no branch depends on the number, so that a micro-batch can be a graph.
struct DrawnModel {
    std::function<std::vector<Tensor>(std::int64_t)> inputs;
    std::function<Loss(const std::vector<Tensor>&)> loss;
};

/// Of the parameters' dtype.
inline Tensor pattern(Parameters& parameters, const Shape& shape, std::int64_t number) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i)
        values.push_back(static_cast<double>((i * (i % 7 + 3) + number * 31) % 101) / 50 - 1);
    Context& context = parameters.context();
    if (parameters.dtype() == Dtype::f64) return context.from_host(values, shape);
    return context.from_host(std::vector<float>(values.begin(), values.end()), shape);
}

inline Tensor indices(Context& context, const Shape& shape, std::int64_t number, std::int64_t first, std::int64_t end) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i)
        values.push_back(first + (i * (i % 5 + 2) + number * 17) % (end - first));
    return context.from_host(values, shape);
}

/// Images to classes, of one label each or, with `masks`, one for each pixel.
template <class Model>
DrawnModel classifier(Parameters& parameters, std::shared_ptr<Model> model, const Shape& images, std::int64_t classes,
                      MemoryFormat format, bool masks = false) {
    const Shape labels = masks ? Shape{images[0], images[2], images[3]} : Shape{images[0]};
    return {[=, &parameters](std::int64_t number) -> std::vector<Tensor> {
                return {pattern(parameters, images, number).contiguous(format),
                        indices(parameters.context(), labels, number, 0, classes)};
            },
            [=](const std::vector<Tensor>& in) {
                Tensor logits = (*model)(in[0]);
                return cross_entropy(masks ? logits.permute({0, 2, 3, 1}) : logits, in[1]);
            }};
}

inline MemoryFormat draw_format(Draw& draw) {
    return draw.flag("channels_last") ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

inline DrawnModel draw_resnet(Parameters& parameters, Draw& draw) {
    ResNetOptions options{.bottleneck = draw.flag("bottleneck"), .classes = draw("classes", 2, 5)};
    for (std::int64_t& count : options.blocks) count = draw("blocks", 1, 2);
    options.channels = draw("channels", 1, 3);
    options.width = draw("width", 1, 6);
    options.small_images = draw.flag("small_images");
    options.frozen_norms = draw.choice("frozen_norms", 4) == 0;
    const std::int64_t least = options.small_images ? 9 : 33;
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", least, least + 9),
                       draw("breadth", least, least + 9)};
    return classifier(parameters, std::make_shared<ResNet>(Path(parameters), options), images, options.classes,
                      draw_format(draw));
}

inline DrawnModel draw_vgg(Parameters& parameters, Draw& draw) {
    VggOptions options{.batch_norm = draw.flag("batch_norm"), .classes = draw("classes", 2, 5)};
    for (std::int64_t& count : options.convolutions) count = draw("convolutions", 1, 2);
    options.channels = draw("channels", 1, 3);
    options.width = draw("width", 1, 4);
    options.hidden = draw("hidden", 1, 9);
    options.dropout = draw.flag("dropout") ? 0.5 : 0;
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", 32, 45), draw("breadth", 32, 45)};
    return classifier(parameters, std::make_shared<Vgg>(Path(parameters), options), images, options.classes,
                      draw_format(draw));
}

inline DrawnModel draw_unet(Parameters& parameters, Draw& draw) {
    const UNetOptions options{.channels = draw("channels", 1, 3),
                              .classes = draw("classes", 2, 4),
                              .width = draw("width", 2, 4),
                              .bilinear = draw.flag("bilinear")};
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", 16, 37), draw("breadth", 16, 37)};
    return classifier(parameters, std::make_shared<UNet>(Path(parameters), options), images, options.classes,
                      draw_format(draw), true);
}

/// One of the norms of images between two convolutions, with a residual.
struct NormedNet : Module<NormedNet> {
    NormedNet(const Path& path, std::int64_t kind_, std::int64_t channels, std::int64_t classes)
        : Module(path),
          kind(kind_),
          first(path / "first", 2, channels, 3, {.padding = 1}),
          last(path / "last", channels, classes, 1) {
        if (kind == 0) batch.emplace(path / "norm", channels, BatchNorm2dOptions{.momentum = {}, .relu = true});
        if (kind == 1) batch.emplace(path / "norm", channels, BatchNorm2dOptions{.affine = false});
        if (kind == 2) group.emplace(path / "norm", 2, channels);
        if (kind == 3) instance.emplace(path / "norm", channels, 1e-5, true);
    }
    Tensor forward(Tensor x) const {
        x = first(std::move(x));
        Tensor y = batch ? (*batch)(x, x) : group ? (*group)(x) : (*instance)(x);
        if (!batch) y = relu(std::move(y) + x);
        return last(std::move(y));
    }
    std::int64_t kind;
    Conv2d first, last;
    std::optional<BatchNorm2d> batch;
    std::optional<GroupNorm> group;
    std::optional<InstanceNorm> instance;
};

inline DrawnModel draw_norms(Parameters& parameters, Draw& draw) {
    const std::int64_t kind = draw.choice("norm", 4), channels = 2 * draw("channels", 1, 5),
                       classes = draw("classes", 2, 4);
    const Shape images{draw("batch", 1, 3), 2, draw("height", 5, 12), draw("breadth", 5, 12)};
    return classifier(parameters, std::make_shared<NormedNet>(Path(parameters), kind, channels, classes), images,
                      classes, draw_format(draw), true);
}

/// A recurrent net and a linear head.
template <class Net>
struct RecurrentModel : Module<RecurrentModel<Net>> {
    RecurrentModel(const Path& path, const RecurrentNetOptions& options, std::int64_t classes)
        : Module<RecurrentModel<Net>>(path),
          net(path / "net", options),
          head(path / "head", options.width * (options.bidirectional ? 2 : 1), classes) {}
    Tensor forward(Tensor x, Tensor lengths) const {
        using State = std::conditional_t<std::is_same_v<Net, Lstm>, LstmState, Tensor>;
        return head(net(std::move(x), State(), std::move(lengths)).output);
    }
    Net net;
    Linear head;
};

template <class Net>
DrawnModel draw_recurrent(Parameters& parameters, Draw& draw) {
    RecurrentNetOptions options{.in = draw("in", 1, 9), .width = draw("width", 1, 9), .layers = draw("layers", 1, 3)};
    options.bias = draw.flag("bias");
    options.bidirectional = draw.flag("bidirectional");
    options.batch_first = draw.flag("batch_first");
    options.dropout = draw.flag("dropout") ? 0.2 : 0;
    options.checkpoint = draw("checkpoint", -1, 3);
    const std::int64_t classes = draw("classes", 2, 5), time = draw("time", 1, 20), batch = draw("batch", 1, 4);
    const bool packed = draw.flag("lengths");
    const Shape steps = options.batch_first ? Shape{batch, time} : Shape{time, batch};
    auto model = std::make_shared<RecurrentModel<Net>>(Path(parameters), options, classes);
    return {[=, &parameters, &context = parameters.context()](std::int64_t number) -> std::vector<Tensor> {
                return {pattern(parameters, {steps[0], steps[1], options.in}, number),
                        indices(context, steps, number, 0, classes), indices(context, {batch}, number, 1, time + 1)};
            },
            [=](const std::vector<Tensor>& in) {
                return cross_entropy((*model)(in[0], packed ? in[2] : Tensor()), in[1]);
            }};
}

/// Ids, targets below `classes`, one for each id or for each sequence, and lengths.
inline std::function<std::vector<Tensor>(std::int64_t)> words(Context& context, const Shape& shape,
                                                              std::int64_t vocabulary, const Shape& targets,
                                                              std::int64_t classes) {
    return [=, &context](std::int64_t number) -> std::vector<Tensor> {
        return {indices(context, shape, number, 0, vocabulary), indices(context, targets, number + 1, 0, classes),
                indices(context, {shape[0]}, number, 1, shape[1] + 1)};
    };
}

inline DrawnModel draw_bert(Parameters& parameters, Draw& draw) {
    const std::int64_t heads = draw("heads", 1, 3);
    BertOptions options{.vocabulary = draw("vocabulary", 5, 90), .block = 20, .layers = draw("layers", 1, 2)};
    options.heads = heads;
    options.width = heads * 4 * draw("width", 1, 3);
    options.hidden = draw("hidden", 1, 40);
    options.dropout = draw.flag("dropout") ? 0.1 : 0;
    options.attention_dropout = draw.flag("attention_dropout") ? 0.1 : 0;
    const Shape shape{draw("batch", 1, 3), draw("time", 1, 20)};
    const bool of_words = draw.flag("words"), masked = draw.flag("lengths");
    const auto mask = [=](const std::vector<Tensor>& in) {
        return masked ? AttentionMask{.lengths = in[2]} : AttentionMask{};
    };
    Context& context = parameters.context();
    if (of_words) {
        auto model = std::make_shared<BertForMaskedLm>(Path(parameters), options);
        return {words(context, shape, options.vocabulary, shape, options.vocabulary),
                [=](const std::vector<Tensor>& in) { return model->loss(in[0], in[1], mask(in)); }};
    }
    auto model = std::make_shared<BertForClassification>(Path(parameters), 3, options);
    return {words(context, shape, options.vocabulary, {shape[0]}, 3),
            [=](const std::vector<Tensor>& in) { return cross_entropy((*model)(in[0], mask(in)), in[1]); }};
}

/// To some linear layers of each block, which alone are trained then.
inline void add_adapters(Parameters& parameters, Gpt& model, Draw& draw) {
    const std::int64_t layers = 1 + draw.choice("adapted", 15), rank = draw("rank", 1, 5);
    parameters.freeze("**");
    for (std::size_t i = 0; i < model.blocks.size(); ++i) {
        TransformerBlock& block = model.blocks[i];
        Linear* const all[] = {&block.attention.qkv, &block.attention.projection, &block.mlp.up, &block.mlp.down};
        for (std::int64_t k = 0; k < 4; ++k) {
            if (layers >> k & 1) add_low_rank(*all[k], Path(parameters) / "adapters" / i / k, {.rank = rank});
        }
    }
}

inline DrawnModel draw_gpt(Parameters& parameters, Draw& draw) {
    const std::int64_t heads = draw("heads", 1, 3);
    GptOptions options{.vocabulary = draw("vocabulary", 5, 90), .block = 20, .layers = draw("layers", 1, 2)};
    options.heads = heads;
    options.width = heads * 4 * draw("width", 1, 3);
    options.dropout = draw.flag("dropout") ? 0.1 : 0;
    const Shape shape{draw("batch", 1, 3), draw("time", 1, 20)};
    auto model = std::make_shared<Gpt>(Path(parameters), options);
    if (draw.flag("adapters")) add_adapters(parameters, *model, draw);
    return {words(parameters.context(), shape, options.vocabulary, shape, options.vocabulary),
            [=](const std::vector<Tensor>& in) { return model->loss(in[0], in[1]); }};
}

/// Rectangles, of which every third place is empty: boxes, labels and masks of images of this shape.
inline std::vector<Tensor> objects(Parameters& parameters, const Shape& images, std::int64_t count,
                                   std::int64_t classes, std::int64_t number) {
    const std::int64_t rows = images[2], columns = images[3];
    std::vector<float> boxes;
    std::vector<std::int64_t> labels;
    std::vector<std::uint8_t> masks;
    for (std::int64_t i = number; i < number + images[0] * count; ++i) {
        const std::int64_t left = 7 * i % (columns / 2), right = columns / 2 + 5 * i % (columns / 2);
        const std::int64_t top = 3 * i % (rows / 2), bottom = rows / 2 + 4 * i % (rows / 2);
        for (const std::int64_t edge : {left, top, right, bottom}) boxes.push_back(static_cast<float>(edge));
        labels.push_back(i % 3 == 2 ? 0 : 1 + i % (classes - 1));
        for (std::int64_t y = 0; y < rows; ++y) {
            for (std::int64_t x = 0; x < columns; ++x)
                masks.push_back(x >= left && x < right && y >= top && y < bottom ? 1 : 0);
        }
    }
    Context& context = parameters.context();
    return {context.from_host(boxes, {images[0], count, 4}), context.from_host(labels, {images[0], count}),
            context.from_host(masks, {images[0], count, rows, columns})};
}

/// Faster R-CNN, or Mask R-CNN.
inline DrawnModel draw_rcnn(Parameters& parameters, Draw& draw) {
    MaskRcnnOptions options{.hidden = draw("hidden", 2, 6), .pooled = draw("pooled", 2, 6)};
    FasterRcnnOptions& boxes = options.boxes;
    boxes.body = {.blocks = {1, 1, 1, 1}, .bottleneck = draw.flag("bottleneck"), .width = draw("width", 1, 4)};
    boxes.body.frozen_norms = draw.flag("frozen_norms");
    boxes.classes = draw("classes", 2, 5);
    boxes.trained_stages = draw("trained_stages", 0, 5);
    boxes.pyramid = draw("pyramid", 2, 8);
    boxes.proposals = {.sizes = {8, 16, 32, 64, 128},
                       .candidates_training = draw("candidates", 10, 40),
                       .proposals_training = draw("proposals", 5, 30),
                       .anchors = draw("anchors", 4, 32)};
    boxes.hidden = draw("box_hidden", 1, 9);
    boxes.pooled = draw("box_pooled", 2, 7);
    boxes.canonical_size = 64;
    boxes.regions = draw("regions", 4, 16);  // of which one in four may show an object
    const bool masks = draw.flag("masks");
    const Shape images{draw("batch", 1, 2), 3, draw("height", 33, 64), draw("breadth", 33, 64)};
    const std::int64_t count = draw("objects", 1, 3);
    const MemoryFormat format = draw_format(draw);
    const auto inputs = [=, &parameters](std::int64_t number) {
        std::vector<Tensor> all = objects(parameters, images, count, options.boxes.classes, number);
        all.insert(all.begin(), pattern(parameters, images, number).contiguous(format));
        return all;
    };
    if (masks) {
        auto model = std::make_shared<MaskRcnn>(Path(parameters), options);
        return {inputs, [=](const std::vector<Tensor>& in) { return model->loss(in[0], in[1], in[2], in[3]); }};
    }
    auto model = std::make_shared<FasterRcnn>(Path(parameters), boxes);
    return {inputs, [=](const std::vector<Tensor>& in) { return model->loss(in[0], in[1], in[2]); }};
}

struct SearchModel {
    const char* name;
    DrawnModel (*make)(Parameters&, Draw&);  ///< registers its parameters
};

inline const std::vector<SearchModel>& search_models() {
    static const std::vector<SearchModel> all{{"resnet", draw_resnet},
                                              {"vgg", draw_vgg},
                                              {"unet", draw_unet},
                                              {"norms", draw_norms},
                                              {"lstm", draw_recurrent<Lstm>},
                                              {"gru", draw_recurrent<Gru>},
                                              {"bert", draw_bert},
                                              {"gpt", draw_gpt},
                                              {"rcnn", draw_rcnn}};
    return all;
}

}  // namespace headroom::nn::test
