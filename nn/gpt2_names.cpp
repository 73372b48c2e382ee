#include <headroom/nn/gpt2_names.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <headroom/files/model_config.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/internal/tied_head.hpp>
#include <headroom/nn/low_rank.hpp>

namespace headroom::nn {

namespace {

using Names = std::pair<std::string_view, std::string_view>;  // ours, theirs

constexpr std::array<Names, 3> kOutsideOfBlocks{{{"tokens", "wte"}, {"positions", "wpe"}, {"norm", "ln_f"}}};
constexpr std::array<Names, 6> kInBlock{{{"norm1", "ln_1"},
                                         {"attention.qkv", "attn.c_attn"},
                                         {"attention.projection", "attn.c_proj"},
                                         {"norm2", "ln_2"},
                                         {"mlp.up", "mlp.c_fc"},
                                         {"mlp.down", "mlp.c_proj"}}};
constexpr std::string_view kPrefix = "transformer.";

template <std::size_t Count>
std::optional<std::string_view> theirs(const std::array<Names, Count>& names, std::string_view ours) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const Names& pair) { return pair.first == ours; });
    return found == names.end() ? std::nullopt : std::optional(found->second);
}

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Masks that older versions stored, and the head, which is the token table.
bool is_not_a_weight(std::string_view name) {
    if (name == "lm_head.weight") return true;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (!name.starts_with("h.")) return false;
    name.remove_prefix(2);
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos || !is_number(name.substr(0, dot))) return false;
    return name.substr(dot) == ".attn.bias" || name.substr(dot) == ".attn.masked_bias";
}

/// By its name without "transformer.".
const files::SafetensorsEntry* find(const files::SafetensorsFile& file, const std::string& name) {
    const files::SafetensorsEntry* const entry = file.find(std::string(kPrefix) + name);
    return entry ? entry : file.find(name);
}

/// Whether linear weights are [out, in], as nanoGPT's: those of queries, keys and values are never square.
bool has_our_layout(const files::SafetensorsFile& file) {
    const files::SafetensorsEntry* const qkv = find(file, "h.0.attn.c_attn.weight");
    return qkv && qkv->shape.rank() == 2 && qkv->shape[0] == 3 * qkv->shape[1];
}

/// The model's parameters as their file sees them: names with `prefix`, linear weights transposed.
std::vector<NamedArray> gpt2_arrays(const Gpt& model, std::string_view prefix, bool transposed = true) {
    model.parameters().materialize();
    std::string root = model.context().memory().path(model.path());
    if (!root.empty()) root += '.';
    std::vector<NamedArray> arrays;
    for (const Parameter& parameter : model.parameters().all()) {
        std::string_view path = parameter.path;
        if (!path.starts_with(root) || is_low_rank(path)) continue;
        const std::optional<std::string> name = gpt2_name(path.substr(root.size()));
        if (!name) throw Error(fmt::format("gpt2: {} has no counterpart in GPT-2", parameter.path));
        const Tensor& tensor = parameter.tensor;
        arrays.push_back({fmt::format("{}{}", prefix, *name),
                          transposed && gpt2_transposes(*name) ? tensor.transpose(0, 1).array() : tensor.array()});
    }
    return arrays;
}

/// Without its number of heads and its activation, which tensors don't show. Errors: FileError if it is no such file.
GptOptions gpt2_sizes(const files::SafetensorsFile& file) {
    const auto* tokens = find(file, "wte.weight");
    const auto* positions = find(file, "wpe.weight");
    if (!tokens || !positions || tokens->shape.rank() != 2 || positions->shape.rank() != 2) {
        throw FileError(fmt::format("{}: not a GPT-2 model, because it has no matrices wte.weight and wpe.weight{}",
                                    file.path().string(), files::part_advice(file.path())));
    }
    std::int64_t layers = 0;
    while (find(file, fmt::format("h.{}.ln_1.weight", layers))) ++layers;
    return {.vocabulary = tokens->shape[0],
            .block = positions->shape[0],
            .layers = layers,
            .width = tokens->shape[1],
            .bias = find(file, "ln_f.bias") || find(file, "h.0.attn.c_attn.bias")};
}

std::optional<std::int64_t> heads_of(const files::SafetensorsFile& file, const files::ModelConfig& config) {
    const std::optional<std::int64_t> heads = config.count("n_head");
    if (!heads) return heads;
    const GptOptions sizes = gpt2_sizes(file);
    config.expect_count("n_embd", sizes.width);
    config.expect_count("n_layer", sizes.layers);
    config.expect("model_type", {"gpt2"});
    config.expect("layer_norm_epsilon", {"1e-5"});
    config.expect("scale_attn_weights", {"true"});
    config.expect("scale_attn_by_inverse_layer_idx", {"false"});
    return heads;
}

Activation activation_of(const files::SafetensorsFile& file, const files::ModelConfig& config) {
    const char* const key = "activation_function";
    config.expect(key, {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "gelu_python", "relu"});
    const std::optional<std::string> said = config.value(key);
    if (!said) return has_our_layout(file) ? Activation::gelu_erf : Activation::gelu_tanh;  // nanoGPT's is exact
    if (*said == "relu") return Activation::relu;
    return *said == "gelu" || *said == "gelu_python" ? Activation::gelu_erf : Activation::gelu_tanh;
}

}  // namespace

std::optional<std::string> gpt2_name(std::string_view path) {
    const std::size_t last = path.rfind('.');
    if (last == std::string_view::npos) return std::nullopt;
    const std::string_view leaf = path.substr(last + 1);
    std::string_view module = path.substr(0, last);
    constexpr std::string_view blocks = "blocks.";
    if (!module.starts_with(blocks)) {
        const auto name = theirs(kOutsideOfBlocks, module);
        return name ? std::optional(fmt::format("{}.{}", *name, leaf)) : std::nullopt;
    }
    module.remove_prefix(blocks.size());
    const std::size_t dot = module.find('.');
    if (dot == std::string_view::npos || !is_number(module.substr(0, dot))) return std::nullopt;
    const auto name = theirs(kInBlock, module.substr(dot + 1));
    return name ? std::optional(fmt::format("h.{}.{}.{}", module.substr(0, dot), *name, leaf)) : std::nullopt;
}

bool gpt2_transposes(std::string_view name) {
    return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") || name.ends_with(".c_fc.weight");
}

files::LoadReport load_gpt2(const std::filesystem::path& path, Gpt& model) {
    model.parameters().check_not_exchanged("parameters: loading");
    const files::SafetensorsFile file(path);
    const files::ModelConfig config(file);
    if (const auto heads = config.count("n_head"); heads && *heads != model.options.heads)
        throw Error(fmt::format("{}: \"n_head\" is {}, but the model has {} heads", config.source(), *heads,
                                model.options.heads));
    const std::string table = fmt::format("{}wte.weight", kPrefix);
    const bool prefixed = file.find(table) != nullptr;
    expect_tied(file, "lm_head.weight", prefixed ? table : "wte.weight");
    files::LoadReport report =
        files::load_arrays(file, model.context(), gpt2_arrays(model, prefixed ? kPrefix : "", !has_our_layout(file)),
                           {.ignore = is_not_a_weight});
    model.parameters().mark_changed();
    return report;
}

void save_gpt2(const std::filesystem::path& path, const Gpt& model) {
    files::write_safetensors(path, model.context(), gpt2_arrays(model, ""), {{"format", "pt"}});
}

std::optional<std::int64_t> gpt2_heads(const std::filesystem::path& path) {
    const files::SafetensorsFile file(path);
    return heads_of(file, files::ModelConfig(file));
}

GptOptions gpt2_sizes(const std::filesystem::path& path) {
    constexpr std::int64_t head_width = 64;
    const files::SafetensorsFile file(path);
    const files::ModelConfig config(file);
    GptOptions sizes = gpt2_sizes(file);
    const std::optional<std::int64_t> heads = heads_of(file, config);
    sizes.heads = heads.value_or(std::max<std::int64_t>(1, sizes.width / head_width));
    sizes.activation = activation_of(file, config);
    return sizes;
}

}  // namespace headroom::nn
