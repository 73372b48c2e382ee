#pragma once
// Reads and writes GPT-2 with the names and layout of Hugging Face's files: "h.3.attn.c_attn.weight" is
// "blocks.3.attention.qkv.weight" here, and the weights of linear layers are [in, out] there, [out, in] here. Names may
// begin with "transformer."; the causal masks (h.N.attn.bias, h.N.attn.masked_bias) and the tied head (lm_head.weight)
// are ignored. nanoGPT's files have the same names and Headroom's layout, by which they are recognised. To resume a
// training use checkpoint.hpp.
//
//     nn::Gpt model(parameters, nn::gpt2_sizes("gpt2/model.safetensors"));
//     nn::load_gpt2("gpt2/model.safetensors", model);
//     nn::save_gpt2("mine.safetensors", model);
//     nn::gpt2_name("blocks.3.mlp.up.weight");                 // "h.3.mlp.c_fc.weight"
//
// Source: https://huggingface.co/openai-community/gpt2, model.safetensors; https://github.com/karpathy/nanoGPT,
// model.py.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::nn {

/// Hugging Face's name of a parameter, by its path below the model; none if GPT-2 has no such parameter.
std::optional<std::string> gpt2_name(std::string_view path);

/// True if the file's array is the transpose of Headroom's, as for the weights of linear layers.
bool gpt2_transposes(std::string_view name);

/// Fills all of the model's parameters, converting floating dtypes. Errors: FileError for a damaged file; Error, naming
/// the tensor, if one is missing, left over or of a different size; Error for a head that is not tied to the token
/// table, or if the number of attention heads differs from the file's configuration (`gpt2_heads`). An error changes
/// nothing.
files::LoadReport load_gpt2(const std::filesystem::path& path, Gpt& model);

/// The number of attention heads from config.json next to the file or, for nanoGPT, from the model_args that
/// scripts/convert_pth keeps; none without either. Errors: FileError if they are damaged or state another width or
/// number of layers than the file has.
std::optional<std::int64_t> gpt2_heads(const std::filesystem::path& path);

/// The sizes of the model in a GPT-2 file, its activation, and whether it has biases; dropout is 0. If the number of
/// heads is unknown, heads are 64 wide, as GPT-2's are. Errors: as `gpt2_heads`; FileError if it is not a GPT-2 file,
/// or if its configuration requires a feature that this model lacks.
GptOptions gpt2_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_gpt2(const std::filesystem::path& path, const Gpt& model);

}  // namespace headroom::nn
