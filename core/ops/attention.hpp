#pragma once
// Scaled dot-product attention that never stores the score matrix: memory is linear in the sequence length, also with
// masks and dropout. Method: Dao, "FlashAttention-2" (2023). No learned bias: masks have no gradient.
//
//     Tensor y = attention_packed(qkv, 4, 4, true);       // qkv [12, 64, 3 * 128], 4 heads -> y [12, 64, 128]
//     Tensor z = attention(q, keys, values, true);        // q [1, 1, 4, 32], keys and values [1, 63, 4, 32]
//     Tensor p = attention_packed(qkv, 4, 4, {.mask = {.lengths = lengths}, .dropout = 0.1});  // padded sequences
//     Tensor b = attention(q, keys, values, {.mask = {.scores = bias}});                // bias [4, 1, 63]
#include <headroom/core/apply.hpp>
#include <headroom/kernels/attention/attention.hpp>

namespace headroom {

namespace ops {

struct AttentionPacked {
    static constexpr OpInfo info{
        .name = "attention_packed", .cost = Cost::expensive, .precision = Precision::half, .as_is = 0b110};
    struct Attrs {
        std::int64_t heads = 1;
        std::int64_t kv_heads = 1;
        bool causal = false;
        double scale = 0;  ///< 0: 1 / sqrt(D)
        kernels::AttentionDropout dropout{};
    };
    struct Saved {
        Array qkv;
        Array mask;
        Array lengths;
        Array o;
        Array lse;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& qkv, const Array& mask,
                                          const Array& lengths);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

struct Attention {
    static constexpr OpInfo info{
        .name = "attention", .cost = Cost::expensive, .precision = Precision::half, .as_is = 0b11000};
    struct Attrs {
        bool causal = false;
        double scale = 0;  ///< 0: 1 / sqrt(D)
        kernels::AttentionDropout dropout{};
    };
    struct Saved {
        Array q;
        Array k;
        Array v;
        Array mask;
        Array lengths;
        Array o;
        Array lse;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& q, const Array& k,
                                          const Array& v, const Array& mask, const Array& lengths);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// The keys that a query sees, in addition to `causal`. Undefined masks hide nothing; with several masks, a key is
/// hidden if any of them hides it. A query that sees no key has the result 0 and does not affect any gradient, as in
/// PyTorch.
struct AttentionMask {
    /// Broadcasts to [B, H, T, S], like attn_mask of torch.nn.functional.scaled_dot_product_attention. bool: true where
    /// the query sees the key. Any floating dtype: added to the scaled scores; values below -1e6 hide the key, like
    /// minus infinity. No gradient.
    Tensor scores = {};
    /// bool [B, S], instead of `scores`: true for visible keys, like Hugging Face's attention_mask. key_padding_mask of
    /// torch.nn.MultiheadAttention is the opposite: true for padding.
    Tensor keys = {};
    /// i32 or i64 [B]: batch b sees its first lengths[b] keys, from 0 to S. The kernels skip the others.
    Tensor lengths = {};
};

struct AttentionOptions {
    bool causal = false;  ///< query i sees keys up to i + (S - T), as with a key-value cache
    double scale = 0;     ///< 0: 1 / sqrt(D)
    AttentionMask mask = {};
    double dropout = 0;  ///< each probability is set to 0 with this probability, else divided by 1 - dropout
};

/// softmax(scale q k^T + mask, over visible keys) v per batch and head, from packed inputs. qkv [B, T, (H + 2 G) * D]
/// holds H heads of queries, then G of keys, then G of values; H is a multiple of G, and query head h reads key head h
/// / (H / G). The result is [B, T, H * D]. Floating dtypes; f32 is cast to the half dtype under `Autocast`, masks are
/// not. The gradient is written straight into the packed layout. Dropout takes a key from `Context::next_random`, which
/// decides for each batch, head, query and key. Errors: ShapeError, also for a length outside [0, S]; DtypeError; Error
/// for a mask that requires a gradient, for both `scores` and `keys`, or for a dropout outside [0, 1].
Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, AttentionOptions options);
Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, bool causal, double scale = 0);

/// The same for q [B, T, H, D], k and v [B, S, G, D] -> [B, T, H, D]; all may be views.
Tensor attention(Tensor q, Tensor k, Tensor v, AttentionOptions options);
Tensor attention(Tensor q, Tensor k, Tensor v, bool causal, double scale = 0);

}  // namespace headroom
