#include <headroom/nn/mlp.hpp>

namespace headroom::nn {

Mlp::Mlp(const Path& path, const MlpOptions& options)
    : Module(path),
      activation(options.activation),
      up(path / "up", options.width, options.hidden, options.up),
      down(path / "down", options.hidden, options.width, options.down) {}

Tensor Mlp::forward(Tensor x) const {
    return feed_forward(std::move(x), up.weight, up.bias, down.weight, down.bias, activation);
}

}  // namespace headroom::nn
