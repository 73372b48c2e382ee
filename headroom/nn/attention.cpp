#include <headroom/nn/attention.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/attention.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

const SelfAttentionOptions& checked(const SelfAttentionOptions& options) {
    const std::int64_t groups = options.kv_heads ? options.kv_heads : options.heads;
    if (options.heads < 1 || groups < 1 || options.width % options.heads != 0 || options.heads % groups != 0) {
        throw ShapeError(fmt::format("attention: {} heads must divide the width {}, and {} key heads the heads",
                                     options.heads, options.width, groups));
    }
    return options;
}

std::int64_t key_heads(const SelfAttentionOptions& options) {
    return options.kv_heads ? options.kv_heads : options.heads;
}

}  // namespace

Attention::Attention(const Path& path, std::int64_t heads_, std::int64_t kv_heads_, bool causal_)
    : Module(path), heads(heads_), kv_heads(kv_heads_), causal(causal_) {}

Tensor Attention::forward(Tensor packed) const { return attention_packed(std::move(packed), heads, kv_heads, causal); }

Tensor Attention::forward(Tensor packed, KeyValue* cache) const {
    if (!cache) return forward(std::move(packed));
    const std::int64_t batch = packed.size(0);
    const std::int64_t time = packed.size(1);
    const Tensor split = packed.reshape({batch, time, heads + 2 * kv_heads, -1});
    const std::vector<Tensor> parts = split.split({heads, kv_heads, kv_heads}, 2);
    cache->keys = cache->keys.defined() ? cat({cache->keys, parts[1]}, 1) : parts[1].contiguous();
    cache->values = cache->values.defined() ? cat({cache->values, parts[2]}, 1) : parts[2].contiguous();
    return attention(parts[0], cache->keys, cache->values, causal).reshape({batch, time, -1});
}

SelfAttention::SelfAttention(const Path& path, const SelfAttentionOptions& options)
    : Module(path),
      qkv(path / "qkv", checked(options).width,
          options.width / options.heads * (options.heads + 2 * key_heads(options)), options.qkv),
      attention(path / "attention", options.heads, key_heads(options), options.causal),
      projection(path / "projection", options.width, options.width, options.projection) {}

Tensor SelfAttention::forward(Tensor x, KeyValue* cache) const {
    return projection(attention(qkv(std::move(x)), cache));
}

}  // namespace headroom::nn
