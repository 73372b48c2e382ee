#include <headroom/nn/layer_norm.hpp>

#include <headroom/core/ops/layer_norm.hpp>
#include <headroom/core/ops/rms_norm.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

LayerNorm::LayerNorm(const Path& path, std::int64_t width, double epsilon_, bool with_bias)
    : Module(path), weight(path.parameter("weight", {width}, init::ones())), epsilon(epsilon_) {
    if (with_bias) bias = path.parameter("bias", {width}, init::zeros());
}

Tensor LayerNorm::forward(Tensor x) const { return layer_norm(std::move(x), weight, bias, epsilon); }

RmsNorm::RmsNorm(const Path& path, std::int64_t width, double epsilon_)
    : Module(path), weight(path.parameter("weight", {width}, init::ones())), epsilon(epsilon_) {}

Tensor RmsNorm::forward(Tensor x) const { return rms_norm(std::move(x), weight, epsilon); }

}  // namespace headroom::nn
