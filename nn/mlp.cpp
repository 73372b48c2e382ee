#include <headroom/nn/mlp.hpp>

#include <headroom/core/ops/unary.hpp>

namespace headroom {

Mlp::Mlp(const At& at, const MlpOptions& options)
    : Module(at),
      up(at / "up", options.width, options.hidden, options.up),
      down(at / "down", options.hidden, options.width, options.down) {}

Tensor Mlp::forward(Tensor x) const { return down(gelu(up(std::move(x)))); }

}  // namespace headroom
