#include <headroom/nn/mlp.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

const MlpOptions& checked(const MlpOptions& options) {
    if (options.width < 1 || options.hidden < 1)
        throw ShapeError(
            fmt::format("mlp: width and hidden must be at least 1, got {} and {}", options.width, options.hidden));
    return options;
}

}  // namespace

Mlp::Mlp(const Path& path, const MlpOptions& options)
    : Module((checked(options), path)),
      activation(options.activation),
      up(path / "up", options.width, options.hidden, options.up),
      down(path / "down", options.hidden, options.width, options.down) {}

Tensor Mlp::forward(Tensor x) const {
    return feed_forward(std::move(x), up.weight, up.bias, down.weight, down.bias, activation);
}

}  // namespace headroom::nn
