#include <headroom/nn/attention.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/cat.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

struct Heads {
    std::int64_t key_heads, width;  ///< width: of one
};

template <class Options>
Heads heads_of(const Options& options) {
    if (options.width < 1)
        throw ShapeError(fmt::format("attention: the width must be at least 1, got {}", options.width));
    const std::int64_t groups = options.kv_heads ? options.kv_heads : options.heads;
    if (options.heads < 1 || groups < 1 || options.width % options.heads != 0 || options.heads % groups != 0) {
        throw ShapeError(fmt::format(
            "attention: heads must divide width and kv_heads must divide heads, got {} heads, width {} and {} kv_heads",
            options.heads, options.width, groups));
    }
    return {groups, options.width / options.heads};
}

}  // namespace

Attention::Attention(const Path& path, std::int64_t heads_, std::int64_t kv_heads_, bool causal_,
                     std::optional<RotaryOptions> rotary_, double dropout_)
    : Module(path), heads(heads_), kv_heads(kv_heads_), causal(causal_), rotary(rotary_), dropout(dropout_) {
    if (!(dropout >= 0.0 && dropout < 1.0))
        throw Error(fmt::format("attention: dropout must be in [0, 1), got {}", dropout));
}

AttentionOptions Attention::options(const AttentionMask& mask) const {
    return {.causal = causal, .mask = mask, .dropout = training() ? dropout : 0.0};
}

Tensor Attention::forward(Tensor packed, const AttentionMask& mask) const {
    if (rotary) {
        const Shape shape = packed.shape();
        Tensor split = packed.reshape({shape[0], shape[1], heads + 2 * kv_heads, -1});
        packed.reset();
        packed = headroom::rotary(std::move(split), 0, *rotary, heads + kv_heads).reshape(shape);
    }
    return attention_packed(std::move(packed), heads, kv_heads, options(mask));
}

Tensor Attention::forward(Tensor packed, KeyValue* cache) const {
    if (!cache) return forward(std::move(packed));
    const std::int64_t batch = packed.size(0);
    const std::int64_t time = packed.size(1);
    Tensor split = packed.reshape({batch, time, heads + 2 * kv_heads, -1});
    packed.reset();
    if (rotary) {
        const std::int64_t first = cache->keys.defined() ? cache->keys.size(1) : 0;
        split = headroom::rotary(std::move(split), first, *rotary, heads + kv_heads);
    }
    const std::vector<Tensor> parts = split.split({heads, kv_heads, kv_heads}, 2);
    cache->keys = cache->keys.defined() ? cat({cache->keys, parts[1]}, 1) : parts[1].contiguous();
    cache->values = cache->values.defined() ? cat({cache->values, parts[2]}, 1) : parts[2].contiguous();
    return attention(parts[0], cache->keys, cache->values, options({})).reshape({batch, time, -1});
}

Tensor Attention::forward(const Tensor& queries, const KeyValue& memory, const AttentionMask& mask) const {
    const std::int64_t batch = queries.size(0), time = queries.size(1);
    return attention(queries.reshape({batch, time, heads, -1}), memory.keys, memory.values, options(mask))
        .reshape({batch, time, -1});
}

SelfAttention::SelfAttention(const Path& path, const SelfAttentionOptions& options)
    : Module(path),
      qkv(path / "qkv", options.width, (options.heads + 2 * heads_of(options).key_heads) * heads_of(options).width,
          options.qkv),
      attention(path / "attention", options.heads, heads_of(options).key_heads, options.causal, options.rotary,
                options.dropout),
      projection(path / "projection", options.width, options.width, options.projection) {}

Tensor SelfAttention::forward(Tensor x, KeyValue* cache) const {
    return projection(attention(qkv(std::move(x)), cache));
}

Tensor SelfAttention::forward(Tensor x, const AttentionMask& mask) const {
    return projection(attention(qkv(std::move(x)), mask));
}

CrossAttention::CrossAttention(const Path& path, const CrossAttentionOptions& options)
    : Module(path),
      query(path / "query", options.width, options.width, options.query),
      key_value(path / "key_value", options.memory_width ? options.memory_width : options.width,
                2 * heads_of(options).key_heads * heads_of(options).width, options.key_value),
      attention(path / "attention", options.heads, heads_of(options).key_heads, /*causal=*/false, std::nullopt,
                options.dropout),
      projection(path / "projection", options.width, options.width, options.projection) {}

KeyValue CrossAttention::keys_and_values(Tensor memory) const {
    const Tensor both = key_value(std::move(memory));
    const std::vector<Tensor> parts =
        both.reshape({both.size(0), both.size(1), 2 * attention.kv_heads, -1}).split(attention.kv_heads, 2);
    return {parts[0], parts[1]};
}

Tensor CrossAttention::forward(Tensor x, Tensor memory, const AttentionMask& mask) const {
    return forward(std::move(x), keys_and_values(std::move(memory)), mask);
}

Tensor CrossAttention::forward(Tensor x, const KeyValue& memory, const AttentionMask& mask) const {
    return projection(attention(query(std::move(x)), memory, mask));
}

}  // namespace headroom::nn
