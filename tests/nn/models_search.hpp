#pragma once
// Trainings of models drawn at random: sizes, policies, dtypes, micro-batches, optimizers, for tests of what must hold
// for all of them. One more model is one more entry of `search_models`.
//
//     search_models_at_random(40, 100, [](int threads) { return Context::cpu({.threads = threads}); });
//
// It prints its first seed, and what was drawn where something fails. HEADROOM_FUZZ_SEED starts there,
// HEADROOM_FUZZ_MODELS draws so many.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/nn/bert.hpp>
#include <headroom/nn/group_norm.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/nn/resnet.hpp>
#include <headroom/nn/unet.hpp>
#include <headroom/nn/vgg.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/support/parameters.hpp>

namespace headroom::nn::test {

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

/// The loss of one micro-batch, by its number.
using LossOf = std::function<Loss(std::int64_t)>;

inline Tensor pattern(Context& context, const Shape& shape, std::int64_t number) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i)
        values.push_back(static_cast<float>((i * (i % 7 + 3) + number * 31) % 101) / 50 - 1);
    return context.from_host(values, shape);
}

inline Tensor indices(Context& context, const Shape& shape, std::int64_t number, std::int64_t first, std::int64_t end) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < shape.numel(); ++i)
        values.push_back(first + (i * (i % 5 + 2) + number * 17) % (end - first));
    return context.from_host(values, shape);
}

/// Images to classes, of one label each or one for each pixel.
template <class Model>
LossOf image_loss(Parameters& parameters, std::shared_ptr<Model> model, const Shape& images, std::int64_t classes,
                  MemoryFormat format) {
    return [&parameters, model, images, classes, format](std::int64_t number) {
        Context& context = parameters.context();
        Tensor logits = (*model)(pattern(context, images, number).contiguous(format));
        const bool masks = logits.rank() == 4;
        if (masks) logits = logits.permute({0, 2, 3, 1});
        Shape shape = logits.shape();
        shape.erase(shape.rank() - 1);
        return cross_entropy(std::move(logits), indices(context, shape, number, 0, classes));
    };
}

inline MemoryFormat draw_format(Draw& draw) {
    return draw.flag("channels_last") ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

inline LossOf search_resnet(Parameters& parameters, Draw& draw) {
    ResNetOptions options{.bottleneck = draw.flag("bottleneck"), .classes = draw("classes", 2, 5)};
    for (std::int64_t& count : options.blocks) count = draw("blocks", 1, 2);
    options.channels = draw("channels", 1, 3);
    options.width = draw("width", 1, 6);
    options.small_images = draw.flag("small_images");
    options.frozen_norms = draw.choice("frozen_norms", 4) == 0;
    const std::int64_t least = options.small_images ? 9 : 33;
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", least, least + 9),
                       draw("breadth", least, least + 9)};
    return image_loss(parameters, std::make_shared<ResNet>(Path(parameters), options), images, options.classes,
                      draw_format(draw));
}

inline LossOf search_vgg(Parameters& parameters, Draw& draw) {
    VggOptions options{.batch_norm = draw.flag("batch_norm"), .classes = draw("classes", 2, 5)};
    for (std::int64_t& count : options.convolutions) count = draw("convolutions", 1, 2);
    options.channels = draw("channels", 1, 3);
    options.width = draw("width", 1, 4);
    options.hidden = draw("hidden", 1, 9);
    options.dropout = draw.flag("dropout") ? 0.5 : 0;
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", 32, 45), draw("breadth", 32, 45)};
    return image_loss(parameters, std::make_shared<Vgg>(Path(parameters), options), images, options.classes,
                      draw_format(draw));
}

inline LossOf search_unet(Parameters& parameters, Draw& draw) {
    const UNetOptions options{.channels = draw("channels", 1, 3),
                              .classes = draw("classes", 2, 4),
                              .width = draw("width", 2, 4),
                              .bilinear = draw.flag("bilinear")};
    const Shape images{draw("batch", 2, 3), options.channels, draw("height", 16, 37), draw("breadth", 16, 37)};
    return image_loss(parameters, std::make_shared<UNet>(Path(parameters), options), images, options.classes,
                      draw_format(draw));
}

/// One of the norms of images between two convolutions, with a residual.
struct NormedNet : Module<NormedNet> {
    NormedNet(const Path& path, std::int64_t kind_, std::int64_t channels, std::int64_t classes)
        : Module(path),
          kind(kind_),
          first(path / "first", 2, channels, {3, 3}),
          last(path / "last", channels, classes, {1, 1}) {
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

inline LossOf search_norms(Parameters& parameters, Draw& draw) {
    const std::int64_t kind = draw.choice("norm", 4), channels = 2 * draw("channels", 1, 5),
                       classes = draw("classes", 2, 4);
    const Shape images{draw("batch", 1, 3), 2, draw("height", 5, 12), draw("breadth", 5, 12)};
    return image_loss(parameters, std::make_shared<NormedNet>(Path(parameters), kind, channels, classes), images,
                      classes, draw_format(draw));
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
LossOf search_recurrent(Parameters& parameters, Draw& draw) {
    RecurrentNetOptions options{.in = draw("in", 1, 9), .width = draw("width", 1, 9), .layers = draw("layers", 1, 3)};
    options.bias = draw.flag("bias");
    options.bidirectional = draw.flag("bidirectional");
    options.batch_first = draw.flag("batch_first");
    options.dropout = draw.flag("dropout") ? 0.2 : 0;
    options.checkpoint = draw("checkpoint", -1, 3);
    const std::int64_t classes = draw("classes", 2, 5), time = draw("time", 1, 20), batch = draw("batch", 1, 4);
    const bool packed = draw.flag("lengths");
    auto model = std::make_shared<RecurrentModel<Net>>(Path(parameters), options, classes);
    return [=, &parameters](std::int64_t number) {
        Context& context = parameters.context();
        const Shape steps = options.batch_first ? Shape{batch, time} : Shape{time, batch};
        const Tensor lengths = packed ? indices(context, {batch}, number, 1, time + 1) : Tensor();
        Tensor logits = (*model)(pattern(context, {steps[0], steps[1], options.in}, number), lengths);
        return cross_entropy(std::move(logits), indices(context, steps, number, 0, classes));
    };
}

inline LossOf search_bert(Parameters& parameters, Draw& draw) {
    const std::int64_t heads = draw("heads", 1, 3);
    BertOptions options{.vocabulary = draw("vocabulary", 5, 90), .block = 20, .layers = draw("layers", 1, 2)};
    options.heads = heads;
    options.width = heads * 4 * draw("width", 1, 3);
    options.hidden = draw("hidden", 1, 40);
    options.dropout = draw.flag("dropout") ? 0.1 : 0;
    options.attention_dropout = draw.flag("attention_dropout") ? 0.1 : 0;
    const Shape shape{draw("batch", 1, 3), draw("time", 1, 20)};
    const bool words = draw.flag("words"), masked = draw.flag("lengths");
    const auto ids = [=](Context& context, std::int64_t number) {
        return indices(context, shape, number, 0, options.vocabulary);
    };
    const auto mask = [=](Context& context, std::int64_t number) -> AttentionMask {
        if (!masked) return {};
        return {.lengths = indices(context, {shape[0]}, number, 1, shape[1] + 1)};
    };
    if (words) {
        auto model = std::make_shared<BertForMaskedLm>(Path(parameters), options);
        return [=, &context = parameters.context()](std::int64_t number) {
            return model->loss(ids(context, number), ids(context, number + 1), mask(context, number));
        };
    }
    auto model = std::make_shared<BertForClassification>(Path(parameters), 3, options);
    return [=, &context = parameters.context()](std::int64_t number) {
        return cross_entropy((*model)(ids(context, number), mask(context, number)),
                             indices(context, {shape[0]}, number, 0, 3));
    };
}

struct SearchModel {
    const char* name;
    LossOf (*make)(Parameters&, Draw&);  ///< the model with its parameters, of sizes drawn
};

inline const std::vector<SearchModel>& search_models() {
    static const std::vector<SearchModel> all{{"resnet", search_resnet},
                                              {"vgg", search_vgg},
                                              {"unet", search_unet},
                                              {"norms", search_norms},
                                              {"lstm", search_recurrent<Lstm>},
                                              {"gru", search_recurrent<Gru>},
                                              {"bert", search_bert}};
    return all;
}

/// All that is drawn follows from the seed: the same for each context, with and without recomputation.
struct DrawnTraining {
    using MakeContext = std::function<Context(int threads)>;

    DrawnTraining(std::uint64_t seed, std::int64_t most, const MakeContext& make, bool recompute)
        : draw(seed, most),
          model(draw.of("model", search_models())),
          autocast(draw.of<std::optional<Dtype>>("autocast", {std::nullopt, Dtype::bf16, Dtype::f16})),
          micro_batches(draw("micro_batches", 1, 3)),
          context(make(static_cast<int>(draw("threads", 1, 2)))),
          parameters(context),
          loss(model.make(parameters, draw)) {
        for (const Parameter& parameter : parameters.all()) {
            const std::size_t dot = parameter.path.rfind('.');
            if (dot == std::string::npos) continue;
            const std::string owner = parameter.path.substr(0, dot);
            if (parameter.trained && (owners.empty() || owners.back() != owner)) owners.push_back(owner);
        }
        if (draw.choice("freeze", 4) == 0) {
            owners.pop_back();  // something is trained
            freeze(draw.of("frozen", owners) + ".*");
        }
        draw_policies(recompute);
        if (draw.flag("adamw"))
            optimizer = std::make_unique<optim::AdamW>(parameters);
        else
            optimizer = std::make_unique<optim::Sgd>(parameters, optim::SgdOptions{.momentum = 0.9});
        optim::GradientAccumulatorOptions how{.clip = draw.flag("clip") ? 1.0 : 0.0};
        if (autocast == Dtype::f16) how.scale = optim::LossScale::dynamic();
        accumulator = std::make_unique<optim::GradientAccumulator>(parameters, *optimizer, how);
    }

    void step(std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
            accumulator->accumulate([&] {
                const Autocast guard(context, autocast);
                return loss(done++);
            });
        }
        accumulator->step(1e-3);
    }
    /// Parameters and buffers.
    std::vector<double> state() { return headroom::test::values_of(parameters); }

    Draw draw;
    SearchModel model;
    std::optional<Dtype> autocast;
    std::int64_t micro_batches;
    Context context;
    Parameters parameters;
    LossOf loss;
    std::vector<std::string> owners;  ///< modules below the model with trained parameters of their own
    std::unique_ptr<optim::Optimizer> optimizer;
    std::unique_ptr<optim::GradientAccumulator> accumulator;
    std::int64_t done = 0;  ///< micro-batches

  private:
    void freeze(const std::string& what) {
        draw.say(what);
        parameters.freeze(what);
    }
    /// A module's path, of which some segments become "*", or all behind one "**".
    std::string draw_pattern() {
        std::string left = draw.of("module", owners) + '.', all;
        while (!left.empty()) {
            const std::size_t dot = left.find('.');
            const std::int64_t kind = draw.choice("segment", 6);
            if (!all.empty()) all += '.';
            if (kind == 0) return all + "**";
            all += kind == 1 ? "*" : left.substr(0, dot);
            left.erase(0, dot + 1);
        }
        return all;
    }
    void draw_policies(bool recompute) {
        const std::vector<std::string> names{"recompute_all", "recompute_cheap", "keep_all"};
        const std::vector<Policy> policies{recompute_all(), recompute_cheap(), keep_all()};
        for (std::int64_t left = draw("policies", 1, 3); left > 0; --left) {
            const std::string where = draw.flag("everywhere") ? "**" : draw_pattern();
            const auto which = static_cast<std::size_t>(draw.choice("policy", 3));
            draw.say(where + ": " + names[which]);
            if (recompute) context.policy(where, policies[which]);
        }
    }
};

inline MemoryStatistics after_two_steps(DrawnTraining& training, std::int64_t micro_batches) {
    for (int i = 0; i < 2; ++i) training.step(micro_batches);
    return training.context.memory().statistics();
}

inline void check_drawn(std::uint64_t seed, std::int64_t most, const DrawnTraining::MakeContext& make) {
    DrawnTraining kept(seed, most, make, false), recomputed(seed, most, make, true);
    SCOPED_TRACE(recomputed.draw.text());
    const Profile profile = recomputed.context.profile();
    const auto rehearsed = [&](bool recompute, std::int64_t micro_batches) {
        DrawnTraining rehearsal(
            seed, most, [&](int) { return Context::dry(profile); }, recompute);
        return after_two_steps(rehearsal, micro_batches);
    };
    for (DrawnTraining* real : {&kept, &recomputed}) {
        const MemoryStatistics measured = after_two_steps(*real, real->micro_batches);
        const MemoryStatistics predicted = rehearsed(real == &recomputed, real->micro_batches);
        EXPECT_EQ(predicted.peak_allocated, measured.peak_allocated) << "recompute " << (real == &recomputed);
        EXPECT_EQ(predicted.peak_reserved, measured.peak_reserved) << "recompute " << (real == &recomputed);
        EXPECT_EQ(predicted.allocations, measured.allocations) << "recompute " << (real == &recomputed);
    }
    EXPECT_EQ(rehearsed(true, 8).peak_allocated, rehearsed(true, 2).peak_allocated);

    EXPECT_TRUE(recomputed.accumulator->result().finite || recomputed.autocast == Dtype::f16);
    EXPECT_EQ(recomputed.state(), kept.state());
    for (const Parameter& each : recomputed.parameters.all()) {
        if (!each.path.ends_with("num_batches_tracked")) continue;
        EXPECT_EQ(each.tensor.item(), static_cast<double>(recomputed.done)) << each.path;
    }
}

/// `most`: different values of each size, from the smallest on.
inline void search_models_at_random(std::uint64_t count, std::int64_t most, const DrawnTraining::MakeContext& make) {
    const char* fixed = std::getenv("HEADROOM_FUZZ_SEED");
    const char* many = std::getenv("HEADROOM_FUZZ_MODELS");
    const std::uint64_t first = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    if (many || fixed) count = many ? std::strtoull(many, nullptr, 10) : 1;
    fmt::print("seeds {} to {} (HEADROOM_FUZZ_SEED starts there, HEADROOM_FUZZ_MODELS draws so many)\n", first,
               first + count - 1);
    std::fflush(stdout);
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        SCOPED_TRACE(fmt::format("HEADROOM_FUZZ_SEED={}", seed));
        check_drawn(seed, most, make);
        if (::testing::Test::HasFailure()) return;
    }
}

}  // namespace headroom::nn::test
