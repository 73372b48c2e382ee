#pragma once
// Attention for transformers. Self-attention has one projection to packed queries, keys and values, the attention
// itself (a module without parameters, so that policies and reports can name it), and an output projection.
// Cross-attention takes queries from one sequence, and keys and values from another, the memory.
//
//     nn::SelfAttention attention(root / "attn", {.width = 128, .heads = 4, .causal = true});
//     Tensor y = attention(x);             // [batch, time, 128] -> the same
//     nn::KeyValue cache;                      // sampling: keys and values of the positions so far
//     Tensor next = attention(last, &cache);
//     nn::SelfAttention turned(root / "attn", {.width = 128, .heads = 4, .rotary = RotaryOptions{}});
//     nn::SelfAttention both(root / "attn", {.width = 128, .heads = 4, .causal = false, .dropout = 0.1});
//     Tensor p = both(x, AttentionMask{.lengths = lengths});         // padded sequences: see core/ops/attention.hpp
//
//     nn::CrossAttention cross(root / "cross", {.width = 128, .heads = 4, .memory_width = 96});
//     Tensor z = cross(x, memory);                       // [batch, time, 128], [batch, positions, 96] -> as x
//     const nn::KeyValue known = cross.keys_and_values(memory);   // sampling: once
//     Tensor last_z = cross(last, known);
#include <cstdint>
#include <optional>

#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/rotary.hpp>
#include <headroom/nn/linear.hpp>

namespace headroom::nn {

/// Keys and values [batch, positions, kv_heads, width / heads] of the positions so far; initially undefined.
struct KeyValue {
    Tensor keys;
    Tensor values;
};

struct SelfAttentionOptions {
    std::int64_t width = 0;
    std::int64_t heads = 1;
    /// 0: equal to `heads`. Ainslie et al. 2023 (grouped-query attention), arXiv:2305.13245.
    std::int64_t kv_heads = 0;
    bool causal = true;
    double dropout = 0.0;  ///< of probabilities, while training
    LinearOptions qkv = {};
    LinearOptions projection = {};
    /// Rotates queries and keys by their positions (see rotary.hpp). With a cache, positions continue from the cached
    /// ones.
    std::optional<RotaryOptions> rotary = std::nullopt;
};

/// softmax(q k^T / sqrt(D)) v on packed or separate operands. Vaswani et al. 2017, arXiv:1706.03762.
class Attention : public Module<Attention> {
  public:
    /// Errors: Error unless dropout is in [0, 1).
    Attention(const Path& path, std::int64_t heads, std::int64_t kv_heads, bool causal,
              std::optional<RotaryOptions> rotary = std::nullopt, double dropout = 0.0);
    /// [batch, time, (heads + 2 kv_heads) * D], order q|k|v -> [batch, time, heads * D].
    Tensor forward(Tensor packed, const AttentionMask& mask = {}) const;
    /// As above for the positions that follow those in `cache`; appends their keys and values to it. For sampling,
    /// under a NoGradGuard.
    Tensor forward(Tensor packed, KeyValue* cache) const;
    /// queries [batch, time, heads * D], keys and values [batch, positions, kv_heads, D] -> [batch, time, heads * D].
    Tensor forward(const Tensor& queries, const KeyValue& memory, const AttentionMask& mask = {}) const;

    std::int64_t heads;
    std::int64_t kv_heads;
    bool causal;
    std::optional<RotaryOptions> rotary;  ///< for packed operands
    double dropout;

  private:
    AttentionOptions options(const AttentionMask& mask) const;
};

struct CrossAttentionOptions {
    std::int64_t width = 0;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 0;      ///< 0: equal to `heads`
    std::int64_t memory_width = 0;  ///< 0: width
    double dropout = 0.0;           ///< of probabilities, while training
    LinearOptions query = {};
    LinearOptions key_value = {};
    LinearOptions projection = {};
};

/// Causal by default, unlike PyTorch's MultiheadAttention: a position attends to itself and earlier ones; with `.causal
/// = false` it attends to all positions.
class SelfAttention : public Module<SelfAttention> {
  public:
    /// Errors: ShapeError unless heads divides width and kv_heads divides heads.
    SelfAttention(const Path& path, const SelfAttentionOptions& options);
    /// [batch, time, width] -> the same. With a cache, x and the result hold the new positions only.
    Tensor forward(Tensor x, KeyValue* cache = nullptr) const;
    Tensor forward(Tensor x, const AttentionMask& mask) const;

    Linear qkv;
    Attention attention;
    Linear projection;
};

/// Every position of x attends to every position of the memory: PyTorch's MultiheadAttention(query, key, value) with
/// the memory as key and value.
class CrossAttention : public Module<CrossAttention> {
  public:
    /// Errors: ShapeError unless heads divides width and kv_heads divides heads.
    CrossAttention(const Path& path, const CrossAttentionOptions& options);
    /// x [batch, time, width], memory [batch, positions, memory_width] -> [batch, time, width]. `mask` is over the
    /// positions of the memory.
    Tensor forward(Tensor x, Tensor memory, const AttentionMask& mask = {}) const;
    /// As above with precomputed keys and values.
    Tensor forward(Tensor x, const KeyValue& memory, const AttentionMask& mask = {}) const;
    /// Projects a memory once, for many calls of `forward`.
    KeyValue keys_and_values(Tensor memory) const;

    Linear query;
    Linear key_value;
    Attention attention;
    Linear projection;
};

}  // namespace headroom::nn
