#pragma once
// BERT with the names of Hugging Face's files: "encoder.layers.3.mlp.up.weight" is
// "bert.encoder.layer.3.intermediate.dense.weight" there, and queries, keys and values, one matrix here, are three.
// Files of a bare BertModel, whose names lack "bert.", are read as well, and so are those that call a norm's weight and
// bias gamma and beta. To resume a training use checkpoint.hpp.
//
//     nn::BertForMaskedLm model(parameters, nn::bert_sizes("bert-base-uncased/model.safetensors"));
//     const files::LoadReport report = nn::load_bert("bert-base-uncased/model.safetensors", parameters);
//     nn::save_bert("mine.safetensors", parameters);
//
// Source: https://huggingface.co/google-bert/bert-base-uncased, model.safetensors.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/bert.hpp>

namespace headroom::nn {

/// Hugging Face's name of a parameter of BertForMaskedLm or BertForClassification, by its path below the model. For
/// packed queries, keys and values it is the name of the queries. Errors: Error for a path that neither model has.
std::string bert_name(std::string_view path);

/// Fills the parameters of such a model, converting floating dtypes. Ignores the file's tensors for other heads
/// (pooler, predictions, seq_relationship, classifier, qa_outputs). With `partial`, heads that the file lacks stay as
/// they were and are named in the report's `missing`: a model for classification begins with one for words, and one for
/// words with a bare BertModel. Errors: FileError for a damaged file; Error that names the tensor if one is missing,
/// left over or of another size, or if the model has a head for words and the file one that is not the token table:
/// nothing is changed then.
files::LoadReport load_bert(const std::filesystem::path& path, Parameters& parameters, bool partial = false);

/// The number of attention heads, as config.json beside the file says; none if it is not there. Errors: FileError if
/// config.json is damaged, says another width or number of layers than the file has, or something that this model
/// can't compute.
std::optional<std::int64_t> bert_heads(const std::filesystem::path& path);

/// The sizes of the model in such a file. Where nothing says the number of heads, they are 64 wide as BERT's. Errors:
/// as `bert_heads`; FileError if it is no such file.
BertOptions bert_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_bert(const std::filesystem::path& path, Parameters& parameters);

}  // namespace headroom::nn
