#include <headroom/nn/gpt2_names.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <headroom/files/checkpoint.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

using Names = std::pair<std::string_view, std::string_view>;  // ours, theirs

constexpr std::array<Names, 3> kOutside{{{"tokens", "wte"}, {"positions", "wpe"}, {"norm", "ln_f"}}};
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

/// Masks that older versions stored, and the head, which is the token table (see check_head).
bool is_ignored(std::string_view name) {
    if (name == "lm_head.weight") return true;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (!name.starts_with("h.")) return false;
    name.remove_prefix(2);
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos || !is_number(name.substr(0, dot))) return false;
    return name.substr(dot) == ".attn.bias" || name.substr(dot) == ".attn.masked_bias";
}

/// The model has no head of its own, so a file's head must be its token table.
void check_head(const files::SafetensorsFile& file, const files::SafetensorsEntry* table) {
    const files::SafetensorsEntry* head = file.find("lm_head.weight");
    if (!head || !table || file.equal(*head, *table)) return;
    throw Error(
        fmt::format("{}: {} is not the same as {}; the head of this model is its token table, so a file with "
                    "another head can't be loaded",
                    file.path().string(), head->name, table->name));
}

/// The model's parameters as their file sees them: names with `prefix`, linear weights transposed.
std::vector<NamedArray> gpt2_arrays(const Gpt& model, std::string_view prefix) {
    model.parameters().materialize();
    std::string root = model.context().memory().path(model.path());
    if (!root.empty()) root += '.';
    std::vector<NamedArray> arrays;
    for (const Parameter& parameter : model.parameters().all()) {
        std::string_view path = parameter.path;
        if (!path.starts_with(root)) continue;
        const std::optional<std::string> name = gpt2_name(path.substr(root.size()));
        if (!name) throw Error(fmt::format("gpt2: {} has no counterpart in GPT-2", parameter.path));
        const Tensor& tensor = parameter.tensor;
        arrays.push_back({fmt::format("{}{}", prefix, *name),
                          gpt2_transposes(*name) ? tensor.transpose(0, 1).array() : tensor.array()});
    }
    return arrays;
}

}  // namespace

std::optional<std::string> gpt2_name(std::string_view path) {
    const std::size_t last = path.rfind('.');
    if (last == std::string_view::npos) return std::nullopt;
    const std::string_view leaf = path.substr(last + 1);
    std::string_view module = path.substr(0, last);
    constexpr std::string_view blocks = "blocks.";
    if (!module.starts_with(blocks)) {
        const auto name = theirs(kOutside, module);
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

void load_gpt2(const std::filesystem::path& path, Gpt& model) {
    model.parameters().check_not_exchanged("parameters: loading");
    const files::SafetensorsFile file(path);
    const bool prefixed = file.find(fmt::format("{}wte.weight", kPrefix)) != nullptr;
    check_head(file, file.find(fmt::format("{}wte.weight", prefixed ? kPrefix : "")));
    files::load_arrays(file, model.context(), gpt2_arrays(model, prefixed ? kPrefix : ""), {.ignore = is_ignored});
    model.parameters().mark_changed();
}

void save_gpt2(const std::filesystem::path& path, const Gpt& model) {
    files::write_safetensors(path, model.context(), gpt2_arrays(model, ""), {{"format", "pt"}});
}

GptOptions gpt2_sizes(const std::filesystem::path& path) {
    constexpr std::int64_t head_width = 64;
    const files::SafetensorsFile file(path);
    const auto find = [&](const std::string& name) {
        const files::SafetensorsEntry* entry = file.find(name);
        return entry ? entry : file.find(std::string(kPrefix) + name);
    };
    const auto* tokens = find("wte.weight");
    const auto* positions = find("wpe.weight");
    if (!tokens || !positions || tokens->shape.rank() != 2 || positions->shape.rank() != 2) {
        throw FileError(fmt::format("{}: has no matrices wte.weight and wpe.weight; it is no GPT-2", path.string()));
    }
    std::int64_t layers = 0;
    while (find(fmt::format("h.{}.ln_1.weight", layers))) ++layers;
    const std::int64_t width = tokens->shape[1];
    return {.vocabulary = tokens->shape[0],
            .block = positions->shape[0],
            .layers = layers,
            .heads = std::max<std::int64_t>(1, width / head_width),
            .width = width};
}

}  // namespace headroom::nn
