#pragma once
// BERT with the names of Hugging Face's files: "encoder.layers.3.mlp.up.weight" is
// "bert.encoder.layer.3.intermediate.dense.weight" there, and queries, keys and values, one matrix here, are three.
// To resume a training use checkpoint.hpp.
//
//     nn::BertForMaskedLm model(parameters, {});           // sizes of bert-base-uncased
//     const files::LoadReport report = nn::load_bert("bert-base-uncased/model.safetensors", parameters);
//     nn::save_bert("mine.safetensors", parameters);
//
// Source: https://huggingface.co/google-bert/bert-base-uncased, model.safetensors.
#include <filesystem>
#include <string>
#include <string_view>

#include <headroom/files/checkpoint.hpp>
#include <headroom/nn/bert.hpp>

namespace headroom::nn {

/// Hugging Face's name of a parameter of BertForMaskedLm or BertForClassification, by its path below the model. For
/// packed queries, keys and values it is the name of the queries. Errors: Error for a path that neither model has.
std::string bert_name(std::string_view path);

/// Fills the parameters of such a model, converting floating dtypes. Ignores the file's tensors for other heads
/// (pooler, predictions, seq_relationship). With `partial`, heads that the file lacks stay as they were: a model for
/// classification begins with one for words. Errors: FileError for a damaged file; Error that names the tensor if one
/// is missing, left over or of another size: nothing is changed then.
files::LoadReport load_bert(const std::filesystem::path& path, Parameters& parameters, bool partial = false);

/// The sizes of the model in such a file. The file does not say the number of heads: BERT's heads are 64 wide. Errors:
/// FileError if it is damaged, or no such file.
BertOptions bert_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_bert(const std::filesystem::path& path, Parameters& parameters);

}  // namespace headroom::nn
