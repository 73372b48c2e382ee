#pragma once
// GPT-2 with the names and layout of Hugging Face's files: "h.3.attn.c_attn.weight" is "blocks.3.attention.qkv.weight"
// here, and the weights of linear layers are [in, out] there, [out, in] here. Names may begin with "transformer."; the
// causal masks (h.N.attn.bias, h.N.attn.masked_bias) and the tied head (lm_head.weight) are ignored. nanoGPT's files
// have the same names and our layout, by which they are recognised. To resume a training use checkpoint.hpp.
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

/// True if the file's array is the transpose of ours: the weights of linear layers.
bool gpt2_transposes(std::string_view name);

/// Fills all of the model's parameters, converting floating dtypes. Errors: FileError for a damaged file; Error that
/// names the tensor if one is missing, left over or of another size, for a head that is not the token table, and if the
/// model has other heads than the file's configuration says (`gpt2_heads`): nothing is changed then.
files::LoadReport load_gpt2(const std::filesystem::path& path, Gpt& model);

/// The number of attention heads, as config.json beside the file says or, of nanoGPT, the model_args that
/// scripts/convert_pth keeps; none if neither does. Errors: FileError if they are damaged, or say another width or
/// number of layers than the file has.
std::optional<std::int64_t> gpt2_heads(const std::filesystem::path& path);

/// The sizes of the model in such a file, whether it has biases, and its activation, without dropout. Where nothing
/// says the number of heads, they are 64 wide as GPT-2's. Errors: as `gpt2_heads`; FileError if it is no such file, or
/// its configuration says something that this model can't compute.
GptOptions gpt2_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_gpt2(const std::filesystem::path& path, const Gpt& model);

}  // namespace headroom::nn
