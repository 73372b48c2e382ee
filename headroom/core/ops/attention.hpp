#pragma once
// Scaled dot-product attention that never stores the matrix of scores: memory is linear in the sequence. After Dao,
// "FlashAttention-2" (2023). Not for additive masks or dropout on the probabilities: compose those of matmul and
// softmax.
//
//     Tensor y = attention_packed(qkv, 4, 4, true);       // qkv [12, 64, 3 * 128], 4 heads -> y [12, 64, 128]
//     Tensor z = attention(q, keys, values, true);        // q [1, 1, 4, 32], keys and values [1, 63, 4, 32]
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct AttentionPacked {
    static constexpr OpInfo info{.name = "attention_packed", .cost = Cost::expensive, .precision = Precision::half};
    struct Attrs {
        std::int64_t heads = 1;
        std::int64_t kv_heads = 1;
        bool causal = false;
        double scale = 0;  ///< 0: 1 / sqrt(D)
    };
    struct Saved {
        Array qkv;
        Array o;
        Array lse;
    };
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& qkv);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct Attention {
    static constexpr OpInfo info{.name = "attention", .cost = Cost::expensive, .precision = Precision::half};
    struct Attrs {
        bool causal = false;
        double scale = 0;  ///< 0: 1 / sqrt(D)
    };
    struct Saved {
        Array q;
        Array k;
        Array v;
        Array o;
        Array lse;
    };
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& q, const Array& k, const Array& v);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// softmax(scale q k^T, over visible keys) v per batch and head, of packed inputs: qkv [B, T, (H + 2 G) * D] holds H
/// heads of queries, then G of keys, then G of values, H a multiple of G; query head h reads key head h / (H / G). The
/// result is [B, T, H * D]. causal: position i sees positions up to i. scale: 0 for 1 / sqrt(D). Floating dtypes; f32
/// is cast to the half dtype under `Autocast`. The gradient is written straight into the packed layout. Errors:
/// ShapeError, DtypeError.
Tensor attention_packed(Tensor qkv, std::int64_t heads, std::int64_t kv_heads, bool causal, double scale = 0);

/// The same of q [B, T, H, D], k and v [B, S, G, D] -> [B, T, H, D]; all may be views. causal: query i sees keys up to
/// i + (S - T), as with a key-value cache; a query that sees none gives 0.
Tensor attention(Tensor q, Tensor k, Tensor v, bool causal, double scale = 0);

}  // namespace headroom
