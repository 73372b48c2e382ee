#pragma once
// Reads and writes BERT under the names of Hugging Face's files. There, "encoder.layers.3.mlp.up.weight" is
// "bert.encoder.layer.3.intermediate.dense.weight", and queries, keys and values have three matrices instead of a
// packed one. Also reads files of a bare BertModel, whose names lack "bert.", and files that call a norm's weight and
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

/// Hugging Face's name of a parameter of BertForMaskedLm or BertForClassification, by its path below the model. The
/// packed matrix of queries, keys and values has the name of the queries' matrix. Errors: Error for a path that neither
/// model has.
std::string bert_name(std::string_view path);

/// Fills the parameters of either model, converting floating dtypes. Ignores the file's tensors for other heads
/// (pooler, predictions, seq_relationship, classifier, qa_outputs). With `partial`, heads that the file lacks stay
/// unchanged and are listed in the report's `missing`. Thus a classifier can start from a masked-LM file, and a masked
/// LM from a bare BertModel. Errors: FileError for a damaged file; Error, naming the tensor, if one is missing, left
/// over or of a different size, or if a masked LM is loaded from a file whose head is not tied to the token table. An
/// error changes nothing.
files::LoadReport load_bert(const std::filesystem::path& path, Parameters& parameters, bool partial = false);

/// The number of attention heads from config.json next to the file; none without config.json. Errors: FileError if
/// config.json is damaged, states a different width or number of layers than the file has, or requires a feature that
/// this model lacks.
std::optional<std::int64_t> bert_heads(const std::filesystem::path& path);

/// The sizes of the model in a BERT file. If the number of heads is unknown, heads are 64 wide, as BERT's are. Errors:
/// as `bert_heads`; FileError if it is not a BERT file.
BertOptions bert_sizes(const std::filesystem::path& path);

/// Errors: as files::write_safetensors.
void save_bert(const std::filesystem::path& path, Parameters& parameters);

}  // namespace headroom::nn
