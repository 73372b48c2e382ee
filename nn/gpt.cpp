#include <headroom/nn/gpt.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/linear_cross_entropy.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

/// GPT-2's 0.02 at its width of 768; narrower models start with larger weights, so that a row keeps its length.
double deviation(const GptOptions& options) { return 0.02 * std::sqrt(768.0 / static_cast<double>(options.width)); }

const GptOptions& checked(const GptOptions& options) {
    if (options.vocabulary < 1 || options.block < 1 || options.layers < 1 || options.heads < 1 || options.width < 1) {
        throw ShapeError("gpt: vocabulary, block, layers, heads and width must be at least 1");
    }
    return options;
}

LinearOptions linear_options(const GptOptions& options, bool residual) {
    const double scale = residual ? 1.0 / std::sqrt(2.0 * static_cast<double>(options.layers)) : 1.0;
    return {
        .bias = options.bias, .weight = init::normal(0.0, deviation(options) * scale), .bias_values = init::zeros()};
}

}  // namespace

TransformerBlock::TransformerBlock(const Path& path, const GptOptions& options)
    : Module(path),
      norm1(path / "norm1", options.width, 1e-5, options.bias),
      attention(path / "attention", {.width = options.width,
                                     .heads = options.heads,
                                     .qkv = linear_options(options, false),
                                     .projection = linear_options(options, true)}),
      drop1(path / "drop1", options.dropout),
      norm2(path / "norm2", options.width, 1e-5, options.bias),
      mlp(path / "mlp", {.width = options.width,
                         .hidden = 4 * options.width,
                         .up = linear_options(options, false),
                         .down = linear_options(options, true),
                         .activation = options.activation}),
      drop2(path / "drop2", options.dropout) {}

Tensor TransformerBlock::forward(Tensor x, KeyValue* cache) const {
    Tensor branch = attention(norm1(x), cache);
    x = drop1(std::move(branch), std::move(x));
    branch = mlp(norm2(x));
    return drop2(std::move(branch), std::move(x));
}

Gpt::Gpt(const Path& path, const GptOptions& options_)
    : Module(path),
      options(checked(options_)),
      tokens(path / "tokens", options.vocabulary, options.width, init::normal(0.0, deviation(options))),
      positions(path / "positions", options.block, options.width, init::normal(0.0, deviation(options))),
      drop(path / "drop", options.dropout),
      norm(path / "norm", options.width, 1e-5, options.bias) {
    blocks.reserve(static_cast<std::size_t>(options.layers));
    for (std::int64_t i = 0; i < options.layers; ++i) blocks.emplace_back(path / "blocks" / i, options);
}

Tensor Gpt::hidden(const Tensor& ids, std::vector<KeyValue>* caches) const {
    if (ids.rank() != 2)
        throw ShapeError(fmt::format("gpt: ids must be [batch, time], got {}", ids.shape().to_string()));
    if (caches && caches->size() != blocks.size()) {
        throw Error(
            fmt::format("gpt: got {} caches for {} layers; make them with caches()", caches->size(), blocks.size()));
    }
    std::int64_t seen = 0;
    if (caches && !caches->empty() && caches->front().keys.defined()) seen = caches->front().keys.size(1);
    const std::int64_t last = seen + ids.size(1);
    if (last > options.block) {
        throw ShapeError(
            fmt::format("gpt: got {} positions, but the model was built for a block of {}", last, options.block));
    }
    const Tensor where = arange(context(), seen, last, 1, Dtype::i32);
    Tensor x = drop(add(tokens(ids), positions(where)));
    if (const auto half = autocast_of(x); half && options.half_residual) x = cast(std::move(x), *half);
    for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i](std::move(x), caches ? &(*caches)[i] : nullptr);
    return norm(std::move(x));
}

RecomputeWays Gpt::recompute_ways() {
    return {
        {},
        cheap_way("blocks.*"),
        {"mlp", "the feed-forward part as well", {{"blocks.*", recompute_cheap()}, {"blocks.*.mlp", recompute_all()}}},
        {"blocks", "everything inside each block", {{"blocks.*", recompute_all()}}}};
}

Tensor Gpt::forward(const Tensor& ids, std::vector<KeyValue>* caches) const {
    return linear(hidden(ids, caches), tokens.weight, Tensor());
}

Loss Gpt::loss(const Tensor& ids, const Tensor& targets) const {
    RegionScope scope(context(), path());
    const Tensor flat = targets.reshape({-1});
    Tensor x = hidden(ids, nullptr).reshape({-1, options.width});
    if (options.vocabulary > 4 * options.width) return linear_cross_entropy(std::move(x), tokens.weight, flat);
    return cross_entropy(linear(std::move(x), tokens.weight, Tensor()), flat);
}

}  // namespace headroom::nn
