// Adapters of linear layers: where a model calls them, that they alone are trained, and which files hold them. Their
// numbers are in low_rank_reference_test.
#include <headroom/nn/low_rank.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/linear.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/files/state_hash.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/bert_names.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::nn {
namespace low_rank_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;

constexpr std::int64_t kVocabulary = 13, kBlock = 8, kWidth = 16, kLayers = 2;
constexpr BertOptions kBert{
    .vocabulary = kVocabulary, .block = kBlock, .layers = 1, .heads = 2, .width = kWidth, .hidden = 32};

struct Adapted {
    struct Options {
        bool adapts = true;
        Activation activation = Activation::gelu_tanh;
        Dtype dtype = Dtype::f64;
        std::string root = "model";
    };
    explicit Adapted(Context& its) : Adapted(its, Options()) {}
    Adapted(Context& its, const Options& options)
        : context(its),
          parameters(its, {.dtype = options.dtype}),
          model(options.root.empty() ? Path(parameters) : Path(parameters) / options.root,
                {.vocabulary = kVocabulary,
                 .block = kBlock,
                 .layers = kLayers,
                 .heads = 2,
                 .width = kWidth,
                 .activation = options.activation}) {
        parameters.freeze("**");
        for (TransformerBlock& block : model.blocks) {
            for (Linear* const layer :
                 {&block.attention.qkv, &block.attention.projection, &block.mlp.up, &block.mlp.down}) {
                if (options.adapts)
                    add_low_rank(*layer, Path(parameters) / "adapters" / count++, {.rank = 3, .alpha = 6});
            }
        }
        optimizer.emplace(parameters);
        accumulator.emplace(parameters, *optimizer);
    }

    Tensor ids(std::int64_t shift = 0) const {
        std::vector<std::int32_t> tokens;
        for (std::int64_t i = 0; i < 2 * kBlock; ++i)
            tokens.push_back(static_cast<std::int32_t>((i * i + shift) % kVocabulary));
        return context.from_host(tokens, {2, kBlock});
    }
    std::vector<double> logits() const {
        const NoGradGuard no_grad(context);
        return model(ids()).to_vector<double>();
    }
    void train(int steps) {
        for (; steps > 0; --steps) {
            for (int i = 0; i < 2; ++i)
                accumulator->accumulate([&] { return model.loss(ids(steps + i), ids(steps + i + 1)); });
            accumulator->step(1e-2);
        }
    }
    std::string state() { return files::state_sha256(context, {parameters, *optimizer}); }
    files::CheckpointParts parts() { return {parameters, *optimizer, *accumulator}; }

    Context& context;
    Parameters parameters;
    Gpt model;
    std::int64_t count = 0;
    std::optional<optim::AdamW> optimizer;
    std::optional<optim::GradientAccumulator> accumulator;
};

double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
    return x.size() == y.size() ? largest : std::numeric_limits<double>::infinity();
}

/// Parts of the model instead of its fused op, rounding apart: sums of up to 64 products in some ten ops a block.
TEST(LowRank, AModelBeginsAsTheOneWithout) {
    for (const Activation activation : {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu}) {
        Context context = Context::cpu({.threads = 1, .seed = 3}), other = Context::cpu({.threads = 1, .seed = 3});
        const Adapted adapted(context, {.activation = activation});
        const Adapted plain(other, {.adapts = false, .activation = activation});
        EXPECT_EQ(adapted.count, 4 * kLayers);
        EXPECT_LT(largest_difference(adapted.logits(), plain.logits()), 10 * kLayers * 64 * 0x1p-52);
    }
}

/// In f64, and in f32 under autocast.
TEST(LowRank, AreTrainedAloneAndPredictedAndRecomputedBitByBit) {
    for (const std::optional<Dtype> half : {std::optional<Dtype>(), std::optional(Dtype::bf16)}) {
        std::vector<std::string> states;
        std::vector<std::size_t> peaks;
        for (const bool recompute : {false, true}) {
            for (const bool dry : {true, false}) {
                Context context = dry ? Context::dry({.threads = 1}) : Context::cpu({.threads = 1, .seed = 3});
                if (recompute) context.policy("model.blocks.*", recompute_all());
                Adapted adapted(context, {.dtype = half ? Dtype::f32 : Dtype::f64});
                adapted.parameters.materialize();
                const auto values = [&] {
                    std::vector<std::vector<double>> all;
                    for (const Parameter& each : adapted.parameters.all())
                        all.push_back(each.tensor.to_vector<double>());
                    return all;
                };
                const auto before = dry ? std::vector<std::vector<double>>() : values();
                const Autocast autocast(context, half);
                adapted.train(3);
                peaks.push_back(context.memory().statistics().peak_allocated);
                if (dry) continue;
                const auto after = values();
                for (std::size_t i = 0; i < after.size(); ++i) {
                    const std::string& path = adapted.parameters.all()[i].path;
                    EXPECT_EQ(after[i] != before[i], is_low_rank(path)) << path;
                }
                states.push_back(adapted.state());
            }
        }
        EXPECT_EQ(states.front(), states.back());
        EXPECT_EQ(peaks[0], peaks[1]);
        EXPECT_EQ(peaks[2], peaks[3]);
        EXPECT_LT(peaks[3], peaks[1]);
    }
}

TEST(LowRank, TrainingsResumeFromTheirFilesWithThem) {
    const ScratchFolder folder;
    Context context = Context::cpu({.threads = 1, .seed = 3}), other = Context::cpu({.threads = 1, .seed = 4});
    Adapted saved(context), resumed(other);
    saved.train(2);
    files::save_checkpoint(folder.path() / "training", context, saved.parts());
    EXPECT_NE(resumed.state(), saved.state());
    files::load_checkpoint(folder.path() / "training", other, resumed.parts());
    EXPECT_EQ(resumed.logits(), saved.logits());
    saved.train(2), resumed.train(2);
    EXPECT_EQ(resumed.state(), saved.state());
}

/// With adapters beside the model and in it.
TEST(LowRank, FilesOfGpt2HaveTheModelAlone) {
    for (const std::string root : {"model", ""}) {
        const ScratchFolder folder;
        const std::filesystem::path file = folder.path() / "gpt2.safetensors";
        Context context = Context::cpu({.threads = 1, .seed = 3}), other = Context::cpu({.threads = 1, .seed = 4}),
                third = Context::cpu({.threads = 1, .seed = 5});
        Adapted saved(context, {.root = root}), loaded(other, {.root = root}), plain(third, {.adapts = false});
        saved.train(1);
        save_gpt2(file, saved.model);
        EXPECT_EQ(load_gpt2(file, loaded.model).loaded, load_gpt2(file, plain.model).loaded);
        EXPECT_LT(largest_difference(loaded.logits(), plain.logits()), 1e-12) << "adapters that add nothing";
        EXPECT_GT(largest_difference(loaded.logits(), saved.logits()), 1e-4) << "adapters that were trained";
    }
}

TEST(LowRank, FilesOfBertHaveTheModelAlone) {
    const ScratchFolder folder;
    Context context = Context::cpu({.threads = 1, .seed = 3}), other = Context::cpu({.threads = 1, .seed = 4});
    Parameters parameters(context), plain(other);
    BertForMaskedLm model(Path(parameters), kBert);
    add_low_rank(model.transform, Path(parameters) / "transform");
    const BertForMaskedLm without(Path(plain), kBert);
    save_bert(folder.path() / "bert", parameters);
    load_bert(folder.path() / "bert", plain);
    EXPECT_EQ(without.transform.weight.to_vector<float>(), model.transform.weight.to_vector<float>());
    save_bert(folder.path() / "bert", plain);
    load_bert(folder.path() / "bert", parameters);
}

TEST(LowRank, NoLayerOfABertIsPassedBy) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    BertForMaskedLm model(Path(parameters), kBert);
    TransformerEncoderLayer& layer = model.bert.encoder.layers.front();
    std::vector<PathId> called;
    const std::vector<Linear*> all{&layer.attention.qkv, &layer.attention.projection, &layer.mlp.up, &layer.mlp.down,
                                   &model.transform};
    std::vector<PathId> want;
    for (Linear* const each : all) {
        want.push_back(each->path());
        each->adapter = [&called, path = each->path(), weight = each->weight](const Tensor& x) {
            called.push_back(path);
            return linear(x, weight);
        };
    }
    const NoGradGuard no_grad(context);
    model(context.from_host(std::vector<std::int32_t>(kBlock), {1, kBlock}));
    EXPECT_EQ(called, want);
}

TEST(LowRank, Misuse) {
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context);
    Linear layer(Path(parameters) / "layer", 4, 6);
    Mlp mlp(Path(parameters) / "mlp", {.width = 4, .hidden = 8, .activation = Activation::none});
    add_low_rank(mlp.up, Path(parameters) / "up");
    EXPECT_THAT([&] { add_low_rank(layer, Path(parameters) / "none", {.rank = 0}); },
                throws<ShapeError>("low_rank: the rank must be at least 1, got 0"));
    EXPECT_THAT([&] { add_low_rank(layer, Path(parameters) / "nan", {.alpha = std::nan("")}); },
                throws<Error>("low_rank: alpha must be finite, got nan"));
    EXPECT_FALSE(layer.adapter);
    add_low_rank(layer, Path(parameters) / "one");
    EXPECT_THAT([&] { add_low_rank(layer, Path(parameters) / "two"); },
                throws<Error>("low_rank: layer already has an adapter"));
    const Tensor x = context.from_host(std::vector<float>(4), {1, 4});
    layer.adapter = [](const Tensor& of) { return of; };
    EXPECT_THAT([&] { layer(x); }, throws<ShapeError>("[1, 4]", "in layer"));
    EXPECT_THAT([&] { mlp(x); }, throws<Error>("mlp: needs an activation"));
}

TEST(LowRank, AreKnownByTheirNames) {
    for (const char* const path : {"lora_a.weight", "adapters.3.lora_b.weight", "blocks.0.mlp.up.lora_a.weight"})
        EXPECT_TRUE(is_low_rank(path)) << path;
    for (const char* const path : {"", "lora_a", "adapters.lora_a.bias", "blocks.0.lora_a.up.weight", "a.weight"})
        EXPECT_FALSE(is_low_rank(path)) << path;
}

}  // namespace low_rank_test
}  // namespace headroom::nn
