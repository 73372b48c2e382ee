#pragma once
// The encoder of a transformer: each layer has self-attention, where each position attends to all positions that the
// mask allows, and a feed-forward part. Vaswani et al. 2017, arXiv:1706.03762. For decoders with a cache see gpt.hpp.
//
//     nn::TransformerEncoder encoder(root / "encoder", {.width = 256, .heads = 4, .hidden = 1024, .layers = 6});
//     Tensor y = encoder(x, AttentionMask{.lengths = lengths});    // [batch, time, 256] -> the same
//     nn::TransformerEncoderLayer layer(root / "layer", {.width = 256, .heads = 4, .hidden = 1024, .norm_first = true});
#include <cstdint>
#include <optional>
#include <vector>

#include <headroom/nn/attention.hpp>
#include <headroom/nn/dropout.hpp>
#include <headroom/nn/layer_norm.hpp>
#include <headroom/nn/mlp.hpp>

namespace headroom::nn {

struct TransformerEncoderOptions {
    std::int64_t width = 512;
    std::int64_t heads = 8;
    std::int64_t hidden = 2048;
    std::int64_t layers = 6;
    double dropout = 0.1;            ///< on each branch, before it is added
    double attention_dropout = 0.1;  ///< on attention probabilities
    Activation activation = Activation::relu;
    /// False: norm(x + branch(x)), as in Vaswani et al. and BERT. True: x + branch(norm(x)), Xiong et al. 2020,
    /// arXiv:2002.04745, with one more norm after the last layer.
    bool norm_first = false;
    double epsilon = 1e-5;  ///< of norms
    /// Initialiser of the matrices; null: Glorot uniform, as in the paper's code. Biases are 0.
    Initializer weight = nullptr;
};

/// torch.nn.TransformerEncoderLayer without the dropout inside the feed-forward part, which is one op here (see
/// `feed_forward`). PyTorch's self_attn.in_proj is attention.qkv, self_attn.out_proj attention.projection, linear1 and
/// linear2 are mlp.up and mlp.down.
class TransformerEncoderLayer : public Module<TransformerEncoderLayer> {
  public:
    /// `options.layers` is not used. Errors: ShapeError unless heads divides width; Error for a dropout outside of
    /// [0, 1).
    TransformerEncoderLayer(const Path& path, const TransformerEncoderOptions& options);
    /// [batch, time, width] -> the same.
    Tensor forward(Tensor x, const AttentionMask& mask = {}) const;

    bool norm_first;
    SelfAttention attention;
    DropoutAdd drop1;
    LayerNorm norm1;
    Mlp mlp;
    DropoutAdd drop2;
    LayerNorm norm2;
};

class TransformerEncoder : public Module<TransformerEncoder> {
  public:
    /// Errors: as TransformerEncoderLayer; ShapeError for fewer than one layer.
    TransformerEncoder(const Path& path, const TransformerEncoderOptions& options);
    /// [batch, time, width] -> the same.
    Tensor forward(Tensor x, const AttentionMask& mask = {}) const;

    std::vector<TransformerEncoderLayer> layers;
    std::optional<LayerNorm> norm;  ///< with norm_first
};

}  // namespace headroom::nn
