#pragma once
// The feed-forward part of a transformer block: a linear layer up to `hidden`, GELU (tanh form, as in GPT-2) or another
// activation, and a linear layer down. It runs as one op, so policies and reports see the module's path, not the paths
// of `up` and `down`. If either has an adapter, both are called as modules, and backward keeps [..., hidden] twice, not
// once.
//
//     nn::Mlp mlp(root / "mlp", {.width = 128, .hidden = 512});
//     Tensor y = mlp(x);  // [..., 128] -> [..., 128]
#include <cstdint>

#include <headroom/core/ops/feed_forward.hpp>
#include <headroom/nn/linear.hpp>

namespace headroom::nn {

struct MlpOptions {
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    LinearOptions up = {};
    LinearOptions down = {};
    Activation activation = Activation::gelu_tanh;
};

class Mlp : public Module<Mlp> {
  public:
    Mlp(const Path& path, const MlpOptions& options);
    /// x [..., width] -> the same (see `feed_forward`).
    Tensor forward(Tensor x) const;

    Activation activation;
    Linear up;
    Linear down;
};

}  // namespace headroom::nn
