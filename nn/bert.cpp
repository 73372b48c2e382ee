#include <headroom/nn/bert.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/cross_entropy.hpp>
#include <headroom/core/ops/linear.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

namespace {

constexpr double kEpsilon = 1e-12;

Initializer initial() { return init::normal(0.0, 0.02); }

LinearOptions linear_options() { return {.weight = initial(), .bias_values = init::zeros()}; }

const BertOptions& checked(const BertOptions& options) {
    if (options.vocabulary < 1 || options.block < 1 || options.types < 1 || options.heads < 1 || options.width < 1 ||
        options.hidden < 1) {
        throw ShapeError("bert: vocabulary, block, types, heads, width and hidden must be at least 1");
    }
    return options;
}

}  // namespace

Bert::Bert(const Path& path, const BertOptions& options_)
    : Module(path),
      options(checked(options_)),
      tokens(path / "tokens", options.vocabulary, options.width, initial(), options.padding),
      positions(path / "positions", options.block, options.width, initial()),
      segments(path / "segments", options.types, options.width, initial()),
      norm(path / "norm", options.width, kEpsilon),
      drop(path / "drop", options.dropout),
      encoder(path / "encoder", {.width = options.width,
                                 .heads = options.heads,
                                 .hidden = options.hidden,
                                 .layers = options.layers,
                                 .dropout = options.dropout,
                                 .attention_dropout = options.attention_dropout,
                                 .activation = Activation::gelu_erf,
                                 .epsilon = kEpsilon,
                                 .weight = initial()}) {}

Tensor Bert::forward(const Tensor& ids, const AttentionMask& mask, const Tensor& types) const {
    if (ids.rank() != 2)
        throw ShapeError(fmt::format("bert: ids must be [batch, time], got {}", ids.shape().to_string()));
    if (ids.size(1) > options.block) {
        throw ShapeError(fmt::format("bert: got {} positions, but the model was built for a block of {}", ids.size(1),
                                     options.block));
    }
    const Tensor where = arange(context(), 0, ids.size(1), 1, Dtype::i32);
    Tensor x = add(tokens(ids), positions(where));
    x = add(std::move(x), types.defined() ? segments(types) : segments.weight.select(0, 0));
    return encoder(drop(norm(std::move(x))), mask);
}

BertForMaskedLm::BertForMaskedLm(const Path& path, const BertOptions& options)
    : Module(path),
      bert(path / "bert", options),
      transform(path / "transform", options.width, options.width, linear_options()),
      norm(path / "norm", options.width, kEpsilon),
      bias(path.parameter("bias", {options.vocabulary}, init::zeros())) {}

RecomputeWays BertForMaskedLm::recompute_ways() {
    const std::string layers = "bert.encoder.layers.*";
    return {{}, cheap_way(layers), {"layers", "everything inside each layer", {{layers, recompute_all()}}}};
}

Tensor BertForMaskedLm::forward(const Tensor& ids, const AttentionMask& mask, const Tensor& types) const {
    Tensor x = norm(gelu(transform(bert(ids, mask, types)), Gelu::erf));
    return linear(std::move(x), bert.tokens.weight, bias);
}

Loss BertForMaskedLm::loss(const Tensor& ids, const Tensor& targets, const AttentionMask& mask,
                           const Tensor& types) const {
    RegionScope scope(context(), path());
    const Tensor logits = forward(ids, mask, types);
    return cross_entropy(logits.reshape({-1, bert.options.vocabulary}), targets.reshape({-1}));
}

BertForClassification::BertForClassification(const Path& path, std::int64_t classes, const BertOptions& options)
    : Module(path),
      bert(path / "bert", options),
      pooler(path / "pooler", options.width, options.width, linear_options()),
      drop(path / "drop", options.dropout),
      classifier(path / "classifier", options.width, classes, linear_options()) {}

Tensor BertForClassification::forward(const Tensor& ids, const AttentionMask& mask, const Tensor& types) const {
    return classifier(drop(tanh(pooler(bert(ids, mask, types).select(1, 0)))));
}

}  // namespace headroom::nn
