#pragma once
// The feed-forward part of a transformer block: up to `hidden`, GELU (tanh form, as in GPT-2), down again.
//
//     Mlp mlp(root / "mlp", {.width = 128, .hidden = 512});
//     Tensor y = mlp(x);  // [..., 128] -> [..., 128]
#include <cstdint>

#include <headroom/nn/linear.hpp>

namespace headroom {

struct MlpOptions {
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    LinearOptions up = {};
    LinearOptions down = {};
};

class Mlp : public Module<Mlp> {
  public:
    Mlp(const At& at, const MlpOptions& options);
    Tensor forward(Tensor x) const;

    Linear up;
    Linear down;
};

}  // namespace headroom
