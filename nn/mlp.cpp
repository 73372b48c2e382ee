#include <headroom/nn/mlp.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

const MlpOptions& checked(const MlpOptions& options) {
    if (options.width < 1 || options.hidden < 1)
        throw ShapeError(
            fmt::format("mlp: width and hidden must be at least 1, got {} and {}", options.width, options.hidden));
    return options;
}

Tensor activate(Tensor x, Activation activation) {
    switch (activation) {
        case Activation::relu:
            return relu(std::move(x));
        case Activation::gelu_tanh:
            return gelu(std::move(x), Gelu::tanh);
        case Activation::gelu_erf:
            return gelu(std::move(x), Gelu::erf);
        case Activation::none:
            break;
    }
    throw Error("mlp: needs an activation; without one, use two linear layers");
}

}  // namespace

Mlp::Mlp(const Path& path, const MlpOptions& options)
    : Module((checked(options), path)),
      activation(options.activation),
      up(path / "up", options.width, options.hidden, options.up),
      down(path / "down", options.hidden, options.width, options.down) {}

Tensor Mlp::forward(Tensor x) const {
    if (up.adapter || down.adapter) return down(activate(up(std::move(x)), activation));
    return feed_forward(std::move(x), up.weight, up.bias, down.weight, down.bias, activation);
}

}  // namespace headroom::nn
