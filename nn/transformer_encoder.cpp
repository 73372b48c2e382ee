#include <headroom/nn/transformer_encoder.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

LinearOptions linear_options(const TransformerEncoderOptions& options) {
    return {.weight = options.weight ? options.weight : init::xavier_uniform(), .bias_values = init::zeros()};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const Path& path, const TransformerEncoderOptions& options)
    : Module(path),
      norm_first(options.norm_first),
      attention(path / "attention", {.width = options.width,
                                     .heads = options.heads,
                                     .causal = false,
                                     .dropout = options.attention_dropout,
                                     .qkv = linear_options(options),
                                     .projection = linear_options(options)}),
      drop1(path / "drop1", options.dropout),
      norm1(path / "norm1", options.width, options.epsilon),
      mlp(path / "mlp", {.width = options.width,
                         .hidden = options.hidden,
                         .up = linear_options(options),
                         .down = linear_options(options),
                         .activation = options.activation}),
      drop2(path / "drop2", options.dropout),
      norm2(path / "norm2", options.width, options.epsilon) {}

Tensor TransformerEncoderLayer::forward(Tensor x, const AttentionMask& mask) const {
    if (norm_first) {
        Tensor branch = attention(norm1(x), mask);
        x = drop1(std::move(branch), std::move(x));
        branch = mlp(norm2(x));
        return drop2(std::move(branch), std::move(x));
    }
    Tensor branch = attention(x, mask);
    x = norm1(drop1(std::move(branch), std::move(x)));
    branch = mlp(x);
    return norm2(drop2(std::move(branch), std::move(x)));
}

TransformerEncoder::TransformerEncoder(const Path& path, const TransformerEncoderOptions& options) : Module(path) {
    if (options.layers < 1)
        throw ShapeError(fmt::format("transformer_encoder: layers must be at least 1, got {}", options.layers));
    layers.reserve(static_cast<std::size_t>(options.layers));
    for (std::int64_t i = 0; i < options.layers; ++i) layers.emplace_back(path / "layers" / i, options);
    if (options.norm_first) norm.emplace(path / "norm", options.width, options.epsilon);
}

Tensor TransformerEncoder::forward(Tensor x, const AttentionMask& mask) const {
    for (const TransformerEncoderLayer& layer : layers) x = layer(std::move(x), mask);
    return norm ? (*norm)(std::move(x)) : x;
}

}  // namespace headroom::nn
