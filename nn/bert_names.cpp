#include <headroom/nn/bert_names.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

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
constexpr std::string_view kLayers = "bert.encoder.layers.", kQuery = ".query.";

template <std::size_t Count>
const std::string_view* theirs(const Names (&names)[Count], std::string_view ours) {
    for (const Names& pair : names) {
        if (pair.first == ours) return &pair.second;
    }
    return nullptr;
}

/// Heads of other models, the matrix of words once more, and the positions' own numbers.
bool is_ignored(std::string_view name) {
    return name.starts_with("cls.") || name.starts_with("bert.pooler.") || name.starts_with("classifier.") ||
           name == "bert.embeddings.position_ids";
}

/// The parameters as their file sees them.
std::vector<NamedArray> bert_arrays(Parameters& parameters) {
    parameters.materialize();
    std::vector<NamedArray> arrays;
    for (const Parameter& parameter : parameters.all()) {
        std::string_view path = parameter.path;
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
    files::LoadReport report = files::load_arrays(files::SafetensorsFile(path), parameters.context(),
                                                  bert_arrays(parameters), {.partial = partial, .ignore = is_ignored});
    parameters.mark_changed();
    return report;
}

BertOptions bert_sizes(const std::filesystem::path& path) {
    constexpr std::int64_t head_width = 64;
    const files::SafetensorsFile file(path);
    const auto shape_of = [&](const std::string& of) {
        const std::string name = bert_name(of + ".weight");
        const files::SafetensorsEntry* entry = file.find(name);
        if (!entry || entry->shape.rank() != 2)
            throw FileError(fmt::format("{}: has no matrix {}; it is no BERT", path.string(), name));
        return entry->shape;
    };
    const Shape tokens = shape_of("bert.tokens");
    const std::int64_t block = shape_of("bert.positions")[0], types = shape_of("bert.segments")[0];
    const std::int64_t hidden = shape_of("bert.encoder.layers.0.mlp.up")[0];
    std::int64_t layers = 0;
    while (file.find(bert_name(fmt::format("bert.encoder.layers.{}.norm1.weight", layers)))) ++layers;
    return {.vocabulary = tokens[0],
            .block = block,
            .types = types,
            .layers = layers,
            .heads = std::max<std::int64_t>(1, tokens[1] / head_width),
            .width = tokens[1],
            .hidden = hidden};
}

void save_bert(const std::filesystem::path& path, Parameters& parameters) {
    files::write_safetensors(path, parameters.context(), bert_arrays(parameters), {{"format", "pt"}});
}

}  // namespace headroom::nn
