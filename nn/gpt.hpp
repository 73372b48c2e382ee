#pragma once
// GPT-2's architecture: learned positions, pre-norm blocks, tanh GELU by default, and a head tied to the token table.
// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners". Not for rotary positions or other
// variants.
//
//     Parameters parameters(context);
//     nn::Gpt model(parameters, {.vocabulary = 65, .block = 64, .layers = 4, .heads = 4, .width = 128});
//     Loss loss = model.loss(tokens, targets);   // i32 [batch, time] each; a term is a position
//     backward(loss.mean());
//     std::vector<std::int32_t> text = nn::generate(model, prompt, 100, {.temperature = 0.8, .top_k = 40});
#include <cstdint>
#include <vector>

#include <headroom/core/loss.hpp>
#include <headroom/nn/attention.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/embedding.hpp>
#include <headroom/nn/layer_norm.hpp>
#include <headroom/nn/mlp.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/nn/sampling.hpp>

namespace headroom::nn {

struct GptOptions {
    std::int64_t vocabulary = 50257;
    std::int64_t block = 1024;  ///< the longest sequence
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t width = 768;
    double dropout = 0.0;
    bool bias = true;  ///< in linear layers and norms
    Activation activation = Activation::gelu_tanh;
    /// Under `Autocast`, also keeps the residual stream between blocks and its gradient in half precision: less memory
    /// and traffic, but each block rounds them. Use it with bf16: in f16, values beyond 65504 overflow.
    bool half_residual = false;
};

/// x + attention(norm(x)), then x + mlp(norm(x)).
class TransformerBlock : public Module<TransformerBlock> {
  public:
    TransformerBlock(const Path& path, const GptOptions& options);
    /// [batch, time, width] -> the same.
    Tensor forward(Tensor x, KeyValue* cache = nullptr) const;

    LayerNorm norm1;
    SelfAttention attention;
    DropoutAdd drop1;
    LayerNorm norm2;
    Mlp mlp;
    DropoutAdd drop2;
};

class Gpt : public Module<Gpt> {
  public:
    /// Weights are normal with standard deviation 0.02 * sqrt(768 / width) (0.02 at GPT-2's width), divided by sqrt(2 *
    /// layers) in residual projections; biases are 0. Errors: ShapeError for sizes below 1 or heads that do not divide
    /// the width.
    Gpt(const Path& path, const GptOptions& options);
    /// For a model whose path is "".
    static RecomputeWays recompute_ways();

    /// Logits: i32 or i64 ids [batch, time] -> [batch, time, vocabulary]. With caches, one per layer (see `caches`),
    /// the ids continue those of earlier calls. Errors: ShapeError beyond `block` positions.
    Tensor forward(const Tensor& ids, std::vector<KeyValue>* caches = nullptr) const;
    /// The cross entropy over all positions whose target is not -100. If the vocabulary exceeds four times the width,
    /// the logits are computed in chunks (see linear_cross_entropy).
    Loss loss(const Tensor& ids, const Tensor& targets) const;
    std::vector<KeyValue> caches() const { return std::vector<KeyValue>(blocks.size()); }

    GptOptions options;
    Embedding tokens;
    Embedding positions;
    Dropout drop;
    std::vector<TransformerBlock> blocks;
    LayerNorm norm;

  private:
    Tensor hidden(const Tensor& ids, std::vector<KeyValue>* caches) const;
};

/// Continues `prompt` (not empty) by `count` tokens, one at a time, with a key-value cache; beyond `block` positions
/// the older half is dropped. Draws from the context's random state. In a dry context all tokens are 0. Errors: Error
/// for an empty prompt or options out of range.
std::vector<std::int32_t> generate(const Gpt& model, const std::vector<std::int32_t>& prompt, std::int64_t count,
                                   const SamplingOptions& options);

}  // namespace headroom::nn
