#include <headroom/nn/group_norm.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/group_norm.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/nn/initializers.hpp>

namespace headroom::nn {

GroupNorm::GroupNorm(const Path& path, std::int64_t groups_, std::int64_t channels, double epsilon_, bool affine)
    : Module(path), groups(groups_), epsilon(epsilon_) {
    if (groups < 1 || channels % groups != 0) {
        throw ShapeError(fmt::format("group_norm: {} groups do not divide {} channels", groups, channels));
    }
    if (!affine) return;
    weight = path.parameter("weight", {channels}, init::ones());
    bias = path.parameter("bias", {channels}, init::zeros());
}

Tensor GroupNorm::forward(Tensor x) const { return group_norm(std::move(x), groups, weight, bias, epsilon); }

InstanceNorm::InstanceNorm(const Path& path, std::int64_t channels_, double epsilon_, bool affine)
    : Module(path), channels(channels_), epsilon(epsilon_) {
    if (!affine) return;
    weight = path.parameter("weight", {channels}, init::ones());
    bias = path.parameter("bias", {channels}, init::zeros());
}

Tensor InstanceNorm::forward(Tensor x) const {
    check_form("instance_norm", {"x", x}, !x.defined() || (x.rank() >= 2 && x.size(1) == channels),
               fmt::format("[N, {}, ...]", channels).c_str());
    return instance_norm(std::move(x), weight, bias, epsilon);
}

}  // namespace headroom::nn
