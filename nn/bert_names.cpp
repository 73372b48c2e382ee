#include <headroom/nn/bert_names.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/files/model_config.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/internal/tied_head.hpp>
#include <headroom/nn/low_rank.hpp>

namespace headroom::nn {

namespace {

using Names = std::pair<std::string_view, std::string_view>;  // ours, theirs

constexpr Names kOutside[] = {{"bert.tokens", "bert.embeddings.word_embeddings"},
                              {"bert.positions", "bert.embeddings.position_embeddings"},
                              {"bert.segments", "bert.embeddings.token_type_embeddings"},
                              {"bert.norm", "bert.embeddings.LayerNorm"},
                              {"pooler", "bert.pooler.dense"},
                              {"classifier", "classifier"},
                              {"transform", "cls.predictions.transform.dense"},
                              {"norm", "cls.predictions.transform.LayerNorm"},
                              {"", "cls.predictions"}};
constexpr Names kInLayer[] = {{"attention.qkv", "attention.self.query"},
                              {"attention.projection", "attention.output.dense"},
                              {"norm1", "attention.output.LayerNorm"},
                              {"mlp.up", "intermediate.dense"},
                              {"mlp.down", "output.dense"},
                              {"norm2", "output.LayerNorm"}};
constexpr std::string_view kLayers = "bert.encoder.layers.", kQuery = ".query.", kBody = "bert.";
constexpr const char *kTable = "bert.embeddings.word_embeddings.weight", *kWordBias = "cls.predictions.bias",
                     *kDecoderBias = "cls.predictions.decoder.bias";

template <std::size_t Count>
const std::string_view* theirs(const Names (&names)[Count], std::string_view ours) {
    for (const Names& pair : names) {
        if (pair.first == ours) return &pair.second;
    }
    return nullptr;
}

/// Of the model alone: what names in a bare BertModel's file lack.
std::string without_body(std::string_view name) {
    if (name.starts_with(kBody)) name.remove_prefix(kBody.size());
    return std::string(name);
}

bool is_head(std::string_view name) {
    return name.starts_with("cls.") || name.starts_with("classifier.") || name.starts_with("qa_outputs.") ||
           without_body(name).starts_with("pooler.");
}

/// Heads of other models, the matrix of words once more, and the positions' own numbers.
bool is_ignored(std::string_view name) { return is_head(name) || without_body(name) == "embeddings.position_ids"; }

/// The name that this file has for the tensor: of a bare BertModel, of old versions, and of those that keep the bias of
/// words once, under its other name.
std::string name_in(const files::SafetensorsFile& file, std::string name) {
    if (name.starts_with(kBody) && !file.find(kTable)) name = without_body(name);
    if (file.find(name)) return name;
    if (name == kWordBias) return file.find(kDecoderBias) ? kDecoderBias : name;
    constexpr std::pair<std::string_view, std::string_view> old[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                                     {"LayerNorm.bias", "LayerNorm.beta"}};
    for (const auto& [now, then] : old) {
        if (!name.ends_with(now)) continue;
        const std::string renamed = name.substr(0, name.size() - now.size()) + std::string(then);
        return file.find(renamed) ? renamed : name;
    }
    return name;
}

/// The parameters as their file sees them.
std::vector<NamedArray> bert_arrays(Parameters& parameters) {
    parameters.materialize();
    std::vector<NamedArray> arrays;
    for (const Parameter& parameter : parameters.all()) {
        std::string_view path = parameter.path;
        if (is_low_rank(path)) continue;
        const std::string& own = parameters.full_path("");
        if (!own.empty()) path.remove_prefix(std::min(path.size(), own.size() + 1));
        const std::string name = bert_name(path);
        const std::size_t query = name.find(kQuery);
        if (query == std::string::npos) {
            arrays.push_back({name, parameter.tensor.array()});
            continue;
        }
        const std::vector<Tensor> parts = parameter.tensor.detach().split(parameter.tensor.size(0) / 3, 0);
        const char* const names[] = {".query.", ".key.", ".value."};
        for (std::size_t i = 0; i < 3; ++i)
            arrays.push_back({std::string(name).replace(query, kQuery.size(), names[i]), parts[i].array()});
    }
    return arrays;
}

/// Without the number of heads. Errors: FileError if it is no such file.
BertOptions sizes_of(const files::SafetensorsFile& file) {
    const auto find = [&](const std::string& of) { return file.find(name_in(file, bert_name(of + ".weight"))); };
    const auto shape_of = [&](const std::string& of) {
        const files::SafetensorsEntry* const entry = find(of);
        if (!entry || entry->shape.rank() != 2)
            throw FileError(fmt::format("{}: not a BERT model, because it has no matrix {}{}", file.path().string(),
                                        bert_name(of + ".weight"), files::part_advice(file.path())));
        return entry->shape;
    };
    const Shape tokens = shape_of("bert.tokens");
    const std::int64_t block = shape_of("bert.positions")[0], types = shape_of("bert.segments")[0];
    const std::int64_t hidden = shape_of("bert.encoder.layers.0.mlp.up")[0];
    std::int64_t layers = 0;
    while (find(fmt::format("bert.encoder.layers.{}.norm1", layers))) ++layers;
    return {.vocabulary = tokens[0],
            .block = block,
            .types = types,
            .layers = layers,
            .width = tokens[1],
            .hidden = hidden};
}

std::optional<std::int64_t> heads_of(const files::SafetensorsFile& file, const BertOptions& sizes) {
    const files::ModelConfig config(file);
    const std::optional<std::int64_t> heads = config.count("num_attention_heads");
    if (!heads) return heads;  // what else lies beside it is not about it
    config.expect_count("hidden_size", sizes.width);
    config.expect_count("num_hidden_layers", sizes.layers);
    config.expect("model_type", {"bert"});
    config.expect("hidden_act", {"gelu", "gelu_python"});
    config.expect("layer_norm_eps", {"1e-12"});
    config.expect("position_embedding_type", {"absolute"});
    config.expect("is_decoder", {"false"});
    return heads;
}

}  // namespace

std::string bert_name(std::string_view path) {
    const std::size_t last = path.rfind('.');
    const std::string_view leaf = last == std::string_view::npos ? path : path.substr(last + 1);
    const std::string_view module = last == std::string_view::npos ? "" : path.substr(0, last);
    if (module.starts_with(kLayers)) {
        const std::string_view rest = module.substr(kLayers.size());
        const std::size_t dot = std::min(rest.find('.'), rest.size());
        const auto* const name = dot < rest.size() ? theirs(kInLayer, rest.substr(dot + 1)) : nullptr;
        if (name) return fmt::format("bert.encoder.layer.{}.{}.{}", rest.substr(0, dot), *name, leaf);
    } else if (const auto* const name = theirs(kOutside, module)) {
        return fmt::format("{}.{}", *name, leaf);
    }
    throw Error(fmt::format("bert: {} has no counterpart in BERT", path));
}

files::LoadReport load_bert(const std::filesystem::path& path, Parameters& parameters, bool partial) {
    parameters.check_not_exchanged("parameters: loading");
    const files::SafetensorsFile file(path);
    std::vector<NamedArray> wanted = bert_arrays(parameters);
    if (std::ranges::any_of(wanted, [](const NamedArray& array) { return array.name == kWordBias; })) {
        expect_tied(file, "cls.predictions.decoder.weight", name_in(file, kTable));
        expect_tied(file, kDecoderBias, kWordBias);
    }
    std::vector<std::string> missing;
    for (NamedArray& array : wanted) {
        array.name = name_in(file, std::move(array.name));
        if (partial && is_head(array.name) && !file.find(array.name)) missing.push_back(array.name);
    }
    std::erase_if(wanted,
                  [&](const NamedArray& array) { return std::ranges::find(missing, array.name) != missing.end(); });
    files::LoadReport report = files::load_arrays(file, parameters.context(), wanted, {.ignore = is_ignored});
    report.missing = std::move(missing);
    parameters.mark_changed();
    return report;
}

std::optional<std::int64_t> bert_heads(const std::filesystem::path& path) {
    const files::SafetensorsFile file(path);
    return heads_of(file, sizes_of(file));
}

BertOptions bert_sizes(const std::filesystem::path& path) {
    constexpr std::int64_t head_width = 64;
    const files::SafetensorsFile file(path);
    BertOptions sizes = sizes_of(file);
    sizes.heads = heads_of(file, sizes).value_or(std::max<std::int64_t>(1, sizes.width / head_width));
    return sizes;
}

void save_bert(const std::filesystem::path& path, Parameters& parameters) {
    files::write_safetensors(path, parameters.context(), bert_arrays(parameters), {{"format", "pt"}});
}

}  // namespace headroom::nn
