#pragma once
// Self-attention for transformers: one projection to packed queries, keys and values, attention itself (a module
// without parameters, so that policies and reports can name it), one projection out.
//
//     nn::SelfAttention attention(root / "attn", {.width = 128, .heads = 4, .causal = true});
//     Tensor y = attention(x);             // [batch, time, 128] -> the same
//     nn::KeyValue cache;                      // sampling: keys and values of the positions so far
//     Tensor next = attention(last, &cache);
#include <cstdint>

#include <headroom/nn/linear.hpp>

namespace headroom::nn {

/// Keys and values [batch, positions, kv_heads, width / heads] of the positions so far; undefined at first.
struct KeyValue {
    Tensor keys;
    Tensor values;
};

struct SelfAttentionOptions {
    std::int64_t width = 0;
    std::int64_t heads = 1;
    /// 0: as many as heads. Ainslie et al. 2023 (grouped-query attention), arXiv:2305.13245.
    std::int64_t kv_heads = 0;
    bool causal = true;
    LinearOptions qkv = {};
    LinearOptions projection = {};
};

/// softmax(q k^T / sqrt(D)) v on packed or separate operands. Vaswani et al. 2017, arXiv:1706.03762.
class Attention : public Module<Attention> {
  public:
    Attention(const Path& path, std::int64_t heads, std::int64_t kv_heads, bool causal);
    /// [batch, time, (heads + 2 kv_heads) * D], order q|k|v -> [batch, time, heads * D].
    Tensor forward(Tensor packed) const;
    /// The same for positions that follow those in `cache`, to which it appends their keys and values. For sampling,
    /// under a NoGradGuard.
    Tensor forward(Tensor packed, KeyValue* cache) const;

    std::int64_t heads;
    std::int64_t kv_heads;
    bool causal;
};

class SelfAttention : public Module<SelfAttention> {
  public:
    /// Errors: ShapeError unless heads divides width and kv_heads divides heads.
    SelfAttention(const Path& path, const SelfAttentionOptions& options);
    /// [batch, time, width] -> the same. With a cache: only the new positions go in and come out.
    Tensor forward(Tensor x, KeyValue* cache = nullptr) const;

    Linear qkv;
    Attention attention;
    Linear projection;
};

}  // namespace headroom::nn
