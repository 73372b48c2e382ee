#pragma once
// BERT: learned positions, bidirectional post-norm layers, exact GELU, and two heads. One predicts masked words, with
// its weights tied to the token table; the other classifies a whole sequence. Devlin et al. 2018, arXiv:1810.04805.
// bert_names.hpp reads and writes Hugging Face's files.
//
//     Parameters parameters(context);
//     nn::BertForMaskedLm model(parameters, {.vocabulary = 30522, .layers = 4, .heads = 4, .width = 256, .hidden = 1024});
//     Loss loss = model.loss(ids, targets, {.lengths = lengths});      // targets: -100 where none is predicted
//     nn::BertForClassification judge(critic, 3, {});                  // three classes
//     Tensor logits = judge(ids, AttentionMask{.keys = seen});         // [batch, 3]
#include <cstdint>
#include <optional>

#include <headroom/core/loss.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/linear.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/nn/transformer_encoder.hpp>

namespace headroom::nn {

struct BertOptions {
    std::int64_t vocabulary = 30522;
    std::int64_t block = 512;  ///< the longest sequence
    std::int64_t types = 2;    ///< number of segment types
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t width = 768;
    std::int64_t hidden = 3072;
    double dropout = 0.1;
    double attention_dropout = 0.1;
    std::optional<std::int64_t> padding = 0;  ///< token whose embedding gets no gradient; none: there is no such token
};

/// The normalised sum of three embeddings, followed by the encoder.
class Bert : public Module<Bert> {
  public:
    /// Initialises matrices and tables from a normal distribution with standard deviation 0.02, as published (like
    /// Hugging Face's code, without truncation), and biases to 0. Errors: ShapeError for sizes below 1 or heads that do
    /// not divide the width.
    Bert(const Path& path, const BertOptions& options);
    /// i32 or i64 ids [batch, time] -> [batch, time, width]. `types`: the segment of each token, as ids; undefined: 0.
    /// Errors: ShapeError beyond `block` positions.
    Tensor forward(const Tensor& ids, const AttentionMask& mask = {}, const Tensor& types = {}) const;

    BertOptions options;
    Embedding tokens;
    Embedding positions;
    Embedding segments;
    LayerNorm norm;
    Dropout drop;
    TransformerEncoder encoder;
};

class BertForMaskedLm : public Module<BertForMaskedLm> {
  public:
    BertForMaskedLm(const Path& path, const BertOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();
    /// Logits [batch, time, vocabulary].
    Tensor forward(const Tensor& ids, const AttentionMask& mask = {}, const Tensor& types = {}) const;
    /// The cross entropy over all positions whose target is not -100.
    Loss loss(const Tensor& ids, const Tensor& targets, const AttentionMask& mask = {}, const Tensor& types = {}) const;

    Bert bert;
    Linear transform;
    LayerNorm norm;
    Tensor bias;  ///< [vocabulary], of the logits
};

class BertForClassification : public Module<BertForClassification> {
  public:
    BertForClassification(const Path& path, std::int64_t classes, const BertOptions& options);
    /// Logits [batch, classes], from the first position.
    Tensor forward(const Tensor& ids, const AttentionMask& mask = {}, const Tensor& types = {}) const;

    Bert bert;
    Linear pooler;
    Dropout drop;
    Linear classifier;
};

}  // namespace headroom::nn
