#include <headroom/nn/mlp.hpp>

namespace headroom::nn {

Mlp::Mlp(const At& at, const MlpOptions& options)
    : Module(at),
      activation(options.activation),
      up(at / "up", options.width, options.hidden, options.up),
      down(at / "down", options.hidden, options.width, options.down) {}

Tensor Mlp::forward(Tensor x) const {
    return feed_forward(std::move(x), up.weight, up.bias, down.weight, down.bias, activation);
}

}  // namespace headroom::nn
