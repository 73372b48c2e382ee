#pragma once
// Rotary position embedding: rotates queries and keys by an angle that grows with their position, so that their
// products depend only on distances. Saves nothing for the gradient, which rotates back. `nn::SelfAttention` calls it.
//
//     Tensor q = rotary(split.slice(2, 0, heads));              // [batch, time, heads, 64]
//     Tensor next = rotary(key, cached);                        // the first position is number `cached`
//     Tensor as_gpt_j = rotary(q, 0, {.interleaved = true});
#include <optional>

#include <headroom/core/apply.hpp>
#include <headroom/kernels/rotary/rotary.hpp>

namespace headroom {

struct RotaryOptions {
    double base = 10000;
    /// false: elements i and i + D / 2 form a pair, as in GPT-NeoX, Llama and Hugging Face's transformers. true: 2 i
    /// and 2 i + 1, as in the paper and GPT-J. Use the form that the weights were trained with.
    bool interleaved = false;
};

namespace ops {

struct RotaryPositions {
    static constexpr OpInfo info{.name = "rotary", .in_place = 0b1};
    using Attrs = kernels::Rotary;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x [B, T, H, D], D even: rotates pair i of each head at position t by (first_position + t) base^(-2 i / D). Method:
/// Su et al. 2021, arXiv:2104.09864. `heads`: rotate only the first `heads` heads, so that packed queries, keys and
/// values take one call; none: all. Angles are computed in f64, the rest in f32 (f64 for f64). Errors: ShapeError;
/// DtypeError; Error unless base is above 0 and first_position at least 0.
Tensor rotary(Tensor x, std::int64_t first_position = 0, const RotaryOptions& options = {},
              std::optional<std::int64_t> heads = std::nullopt);

}  // namespace headroom
