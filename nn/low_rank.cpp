#include <headroom/nn/low_rank.hpp>

#include <cmath>
#include <memory>

#include <fmt/format.h>

#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

constexpr std::string_view kA = "lora_a", kB = "lora_b";

const LowRankOptions& checked(const LowRankOptions& options) {
    if (options.rank < 1) throw ShapeError(fmt::format("low_rank: the rank must be at least 1, got {}", options.rank));
    if (!std::isfinite(options.alpha))
        throw Error(fmt::format("low_rank: alpha must be finite, got {}", options.alpha));
    return options;
}

}  // namespace

LowRank::LowRank(const Path& path, std::int64_t in, std::int64_t out, const LowRankOptions& options)
    : Module(path),
      a(path / kA, in, checked(options).rank, {.bias = false}),
      b(path / kB, options.rank, out, {.bias = false, .weight = init::zeros()}),
      scale(options.alpha / static_cast<double>(options.rank)) {}

Tensor LowRank::forward(const Tensor& x) const { return b(a(x) * scale); }

bool is_low_rank(std::string_view path) {
    const auto is_of = [&](std::string_view matrix) { return path_matches(fmt::format("**.{}.weight", matrix), path); };
    return is_of(kA) || is_of(kB);
}

void add_low_rank(Linear& layer, const Path& path, const LowRankOptions& options) {
    if (layer.adapter)
        throw Error(fmt::format("low_rank: {} already has an adapter", layer.context().memory().path(layer.path())));
    const Shape shape = layer.weight.shape();
    const auto adapter = std::make_shared<const LowRank>(path, shape[1], shape[0], options);
    layer.adapter = [adapter](const Tensor& x) { return (*adapter)(x); };
}

}  // namespace headroom::nn
