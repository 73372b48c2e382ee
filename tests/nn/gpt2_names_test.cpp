// Hugging Face's names and layout, both ways.
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/cast.hpp>
#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace gpt2_names_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;

const std::string kReference = test::source_path("tests/reference/gpt_initial.safetensors");
constexpr GptOptions kOptions{.vocabulary = 11, .block = 8, .layers = 2, .heads = 2, .width = 16};

class Gpt2Names : public ::testing::Test {
  protected:
    /// The reference's tensors, renamed by `rename` (left out where it gives an empty name), and `more`.
    template <class Rename>
    std::filesystem::path variant(Rename rename, std::vector<NamedArray> more = {}) {
        const files::SafetensorsFile reference(kReference);
        for (const files::SafetensorsEntry& entry : reference.entries()) {
            if (rename(entry.name).empty()) continue;
            const Array array = context.exec().empty(entry.shape, entry.dtype);
            reference.copy_to(entry, context, array);
            more.push_back({rename(entry.name), array});
        }
        files::write_safetensors(path, context, std::move(more));
        return path;
    }
    std::vector<double> all(Parameters& p) {
        std::vector<double> values;
        for (const Parameter& parameter : p.all()) {
            const auto part = parameter.tensor.to_vector<double>();
            values.insert(values.end(), part.begin(), part.end());
        }
        return values;
    }

    Context context = Context::cpu({.threads = 1});
    Parameters parameters{context, {.dtype = Dtype::f64}};
    Gpt model{Path(parameters) / "gpt", kOptions};
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "gpt2.safetensors";
};

const auto same = [](const std::string& name) { return name; };
const auto prefixed = [](const std::string& name) { return "transformer." + name; };

TEST_F(Gpt2Names, EveryParameterHasTheNameOfHuggingFace) {
    EXPECT_EQ(gpt2_name("tokens.weight"), "wte.weight");
    EXPECT_EQ(gpt2_name("positions.weight"), "wpe.weight");
    EXPECT_EQ(gpt2_name("norm.bias"), "ln_f.bias");
    EXPECT_EQ(gpt2_name("blocks.11.norm1.weight"), "h.11.ln_1.weight");
    EXPECT_EQ(gpt2_name("blocks.0.attention.qkv.weight"), "h.0.attn.c_attn.weight");
    EXPECT_EQ(gpt2_name("blocks.0.attention.projection.bias"), "h.0.attn.c_proj.bias");
    EXPECT_EQ(gpt2_name("blocks.0.mlp.down.weight"), "h.0.mlp.c_proj.weight");
    for (const char* path : {"weight", "other.weight", "blocks.x.norm1.weight", "blocks.1.weight", "blocks.", ""}) {
        EXPECT_EQ(gpt2_name(path), std::nullopt) << path;
    }
    std::set<std::string> names;
    for (const Parameter& parameter : parameters.all()) names.insert(gpt2_name(parameter.path.substr(4)).value_or(""));
    const test::Reference reference(kReference);
    EXPECT_EQ(names.size(), reference.all().size());
    for (const auto& [name, tensor] : reference.all()) EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(Gpt2Names, LinearWeightsAreTransposedTheRestIsNot) {
    load_gpt2(kReference, model);
    const test::Reference reference(kReference);
    const auto& theirs = reference.at("h.1.mlp.c_fc.weight");
    const Tensor ours = parameters.find("gpt.blocks.1.mlp.up.weight")->tensor;
    ASSERT_EQ(theirs.shape, (Shape{16, 64}));
    ASSERT_EQ(ours.shape(), (Shape{64, 16}));
    EXPECT_EQ(ours.transpose(0, 1).contiguous().to_vector<double>(), theirs.values);
    EXPECT_EQ(model.tokens.weight.to_vector<double>(), reference.at("wte.weight").values);
    EXPECT_EQ(model.positions.weight.to_vector<double>(), reference.at("wpe.weight").values);
}

TEST_F(Gpt2Names, SavingGivesTheFileThatWasLoaded) {
    load_gpt2(kReference, model);
    save_gpt2(path, model);
    const test::Reference before(kReference);
    const files::SafetensorsFile file(path);
    EXPECT_EQ(file.entries().size(), before.all().size());
    for (const files::SafetensorsEntry& entry : file.entries()) {
        const Array array = context.exec().empty(entry.shape, Dtype::f64);
        file.copy_to(entry, context, array);
        EXPECT_EQ(entry.shape, before.at(entry.name).shape) << entry.name;
        EXPECT_EQ(context.from_array(array).to_vector<double>(), before.at(entry.name).values) << entry.name;
    }
}

TEST_F(Gpt2Names, APrefixMasksAndTheTiedHeadAreUnderstood) {
    load_gpt2(kReference, model);
    const auto want = all(parameters);
    const Array mask = context.from_host(std::vector<float>(64, 1.0f), {1, 1, 8, 8}).array();
    const Array head = cast(model.tokens.weight, files::SafetensorsFile(kReference).find("wte.weight")->dtype).array();
    const Array one = context.scalar(-1e4).array();
    for (const bool prefix : {false, true}) {
        const std::string front = prefix ? "transformer." : "";
        std::vector<NamedArray> more{{"lm_head.weight", head}};
        for (const char* block : {"h.0.", "h.1."}) {
            more.push_back({front + block + "attn.bias", mask});
            more.push_back({front + block + "attn.masked_bias", one});
        }
        Parameters fresh(context, {.name = "fresh", .dtype = Dtype::f64});
        Gpt other(Path(fresh), kOptions);
        load_gpt2(prefix ? variant(prefixed, more) : variant(same, more), other);
        EXPECT_EQ(all(fresh), want);
    }
}

TEST_F(Gpt2Names, SizesAreInTheFile) {
    for (const bool prefix : {false, true}) {
        const GptOptions sizes = gpt2_sizes(prefix ? variant(prefixed) : variant(same));
        EXPECT_EQ(sizes.vocabulary, kOptions.vocabulary);
        EXPECT_EQ(sizes.block, kOptions.block);
        EXPECT_EQ(sizes.layers, kOptions.layers);
        EXPECT_EQ(sizes.width, kOptions.width);
        EXPECT_EQ(sizes.heads, 1) << "64 wide, or what there is";
    }
    const auto sizes = [&] { gpt2_sizes(path); };
    variant([](const std::string& name) { return name == "wpe.weight" ? "" : name; });
    EXPECT_THAT(sizes, throws<FileError>("gpt2.safetensors", "not a GPT-2 model"));
    std::filesystem::remove(path);
    EXPECT_THAT(sizes, throws<FileError>("gpt2.safetensors", "No such file"));
}

TEST_F(Gpt2Names, ConfigJsonSaysTheNumberOfHeadsAndMustFit) {
    const auto at = variant(same);
    const auto with = [&](const std::string& json) {
        folder.write("config.json", json);
        return [&] { return gpt2_sizes(at); };
    };
    EXPECT_EQ(gpt2_heads(at), std::nullopt);
    const std::string fits =
        R"({"model_type": "gpt2", "n_head": 2, "n_embd": 16, "n_layer": 2, "layer_norm_epsilon": 1e-05)";
    EXPECT_EQ(with(fits + "}")().heads, 2);
    EXPECT_EQ(gpt2_heads(at), 2);
    load_gpt2(at, model);
    Parameters own(context, {.name = "own"});
    Gpt other(Path(own), {.vocabulary = 11, .block = 8, .layers = 2, .heads = 4, .width = 16});
    EXPECT_THAT([&] { load_gpt2(at, other); },
                throws<Error>("config.json: \"n_head\" is 2, but the model has 4 heads"));
    for (const auto& [name, activation] : {std::pair{"gelu_new", Activation::gelu_tanh},
                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                           {"gelu_fast", Activation::gelu_tanh},
                                           {"gelu", Activation::gelu_erf},
                                           {"gelu_python", Activation::gelu_erf},
                                           {"relu", Activation::relu}})
        EXPECT_EQ(with(fits + fmt::format(R"(, "activation_function": "{}"}})", name))().activation, activation)
            << name;
    EXPECT_THAT(with(fits + R"(, "activation_function": "swish"})"), throws<FileError>("config.json", "swish"));
    EXPECT_THAT(with(R"({"n_head": 2, "n_embd": 32})"), throws<FileError>("\"n_embd\" is 32", "have 16"));
    EXPECT_THAT(with(R"({"n_head": 2, "n_layer": 12})"), throws<FileError>("\"n_layer\" is 12", "have 2"));
    EXPECT_THAT(with(R"({"n_head": 2, "layer_norm_epsilon": 1e-6})"), throws<FileError>("layer_norm_epsilon"));
    EXPECT_THAT(with(R"({"n_head": 2, "scale_attn_by_inverse_layer_idx": true})"), throws<FileError>("inverse_layer"));
    EXPECT_THAT(with(R"({"n_head": 2, "scale_attn_weights": false})"), throws<FileError>("scale_attn_weights"));
    EXPECT_THAT(with(R"({"n_head": 2, "model_type": "gptj"})"), throws<FileError>("model_type", "only gpt2"));
    EXPECT_EQ(with(R"({"n_layer": 12, "name": "of something else"})")().heads, 1);
}

/// The transposes of Hugging Face's, under a wrapper's prefix, without biases; its own words say the number of heads.
TEST_F(Gpt2Names, FilesOfNanoGptAreRecognisedByTheirLayout) {
    const test::Reference reference(kReference);
    std::vector<Tensor> kept;  // the arrays' storage
    std::vector<NamedArray> arrays;
    for (const auto& [name, tensor] : reference.all()) {
        if (name.ends_with(".bias")) continue;
        Tensor value = context.from_host(tensor.values, tensor.shape);
        if (gpt2_transposes(name)) value = value.transpose(0, 1).contiguous();
        kept.push_back(value);
        arrays.push_back({"_orig_mod.transformer." + name, kept.back().array()});
        if (name == "wte.weight") arrays.push_back({"_orig_mod.lm_head.weight", kept.back().array()});
    }
    files::write_safetensors(path, context, arrays, {{"model_args", R"({"n_head": 4, "n_embd": 16, "bias": false})"}});
    GptOptions sizes = gpt2_sizes(path);
    EXPECT_EQ(sizes.layers, 2);
    EXPECT_EQ(sizes.heads, 4);
    EXPECT_FALSE(sizes.bias);
    EXPECT_EQ(sizes.activation, Activation::gelu_erf);
    Parameters own(context, {.name = "nano", .dtype = Dtype::f64});
    Gpt nano(Path(own), sizes);
    EXPECT_EQ(load_gpt2(path, nano).prefix, "_orig_mod.");
    load_gpt2(kReference, model);
    for (const Parameter& parameter : own.all()) {
        const Parameter* const theirs = parameters.find("gpt." + parameter.path.substr(5));
        ASSERT_NE(theirs, nullptr) << parameter.path;
        EXPECT_EQ(parameter.tensor.to_vector<double>(), theirs->tensor.to_vector<double>()) << parameter.path;
    }
    const Tensor ids = context.from_host(std::vector<std::int32_t>{1, 2, 3, 4}, {1, 4});
    sizes.activation = Activation::gelu_tanh;
    Parameters others(context, {.name = "other", .dtype = Dtype::f64});
    Gpt rounded(Path(others), sizes);
    load_gpt2(path, rounded);
    EXPECT_NE(nano(ids).to_vector<double>(), rounded(ids).to_vector<double>());
}

TEST_F(Gpt2Names, AHeadThatIsNotTheTokenTableIsRefusedAndChangesNothing) {
    const auto before = all(parameters);
    for (const bool prefix : {false, true}) {
        std::vector<double> values = test::Reference(kReference).at("wte.weight").values;
        values.back() += 0.5;
        const Dtype dtype = files::SafetensorsFile(kReference).find("wte.weight")->dtype;
        const Array head = cast(context.from_host(values, {11, 16}), dtype).array();
        EXPECT_THAT(
            [&] {
                load_gpt2(
                    prefix ? variant(prefixed, {{"lm_head.weight", head}}) : variant(same, {{"lm_head.weight", head}}),
                    model);
            },
            throws<Error>(path.string(), "lm_head.weight differs from", "wte.weight"));
        EXPECT_EQ(all(parameters), before);
    }
}

TEST_F(Gpt2Names, FilesOfAnotherModelAreRefusedAndChangeNothing) {
    const auto before = all(parameters);
    const auto loading = [&] { load_gpt2(path, model); };
    EXPECT_THAT(loading, throws<FileError>("gpt2.safetensors", "No such file"));
    variant([](const std::string& name) { return name == "h.1.ln_2.bias" ? "" : name; });
    EXPECT_THAT(loading, throws<Error>("gpt2.safetensors", "lacks h.1.ln_2.bias", "another model"));
    variant(same, {{"h.2.ln_1.weight", context.scalar(1).array()}});
    EXPECT_THAT(loading, throws<Error>("has h.2.ln_1.weight", "another model"));
    variant([](const std::string& name) { return name == "wte.weight" ? "" : name; },
            {{"wte.weight", context.from_host(std::vector<float>(12 * 16), {12, 16}).array()}});
    EXPECT_THAT(loading, throws<ShapeError>("wte.weight", "[12, 16]", "[11, 16]"));
    variant([](const std::string& name) { return name == "h.0.mlp.c_fc.weight" ? "" : name; },
            {{"h.0.mlp.c_fc.weight", context.from_host(std::vector<float>(1024), {64, 16}).array()}});
    EXPECT_THAT(loading, throws<ShapeError>("h.0.mlp.c_fc.weight", "[64, 16]", "[16, 64]"));
    EXPECT_EQ(all(parameters), before);
}

}  // namespace gpt2_names_test
}  // namespace headroom::nn
