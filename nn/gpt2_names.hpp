#pragma once
// GPT-2 with the names and layout of Hugging Face's files: "h.3.attn.c_attn.weight" is "blocks.3.attention.qkv.weight"
// here, and the weights of linear layers are [in, out] there, [out, in] here. Names may begin with "transformer."; the
// causal masks (h.N.attn.bias, h.N.attn.masked_bias) and the tied head (lm_head.weight) are ignored. To resume a
// training use checkpoint.hpp.
//
//     nn::Gpt model(parameters, {});                       // GPT-2's own sizes
//     nn::load_gpt2("gpt2/model.safetensors", model);
//     nn::save_gpt2("mine.safetensors", model);
//     nn::gpt2_name("blocks.3.mlp.up.weight");                 // "h.3.mlp.c_fc.weight"
//
// Source: https://huggingface.co/openai-community/gpt2, model.safetensors.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/nn/gpt.hpp>

namespace headroom::nn {

/// Hugging Face's name of a parameter, by its path below the model; none if GPT-2 has no such parameter.
std::optional<std::string> gpt2_name(std::string_view path);

/// True if the file's array is the transpose of ours: the weights of linear layers.
bool gpt2_transposes(std::string_view name);

/// Fills all of the model's parameters, converting floating dtypes. Errors: FileError for a damaged file; Error that
/// names the tensor if one is missing, left over or of another size: nothing is changed then.
void load_gpt2(const std::filesystem::path& path, Gpt& model);

/// The sizes of the model in such a file, without dropout. The file does not say the number of heads: GPT-2's heads are
/// 64 wide. Errors: FileError if it is damaged, or no such file.
GptOptions gpt2_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_gpt2(const std::filesystem::path& path, const Gpt& model);

}  // namespace headroom::nn
