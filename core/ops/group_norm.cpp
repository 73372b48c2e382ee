#include <headroom/core/ops/group_norm.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>

namespace headroom {

namespace ops {

OpResult<GroupNorm::Saved, Array> GroupNorm::forward(Exec& exec, const Attrs& attrs, const Array& x,
                                                     const Array& weight, const Array& bias) {
    check_floating("group_norm", {{"x", x}, {"weight", weight, kOptional}, {"bias", bias, kOptional}});
    check_form("group_norm", {"x", x}, x.rank() >= 2, "[N, C, ...]");
    const std::int64_t channels = x.size(1);
    if (attrs.groups < 1 || channels % attrs.groups != 0) {
        throw ShapeError(fmt::format("group_norm: {} groups do not divide the {} channels of x {}", attrs.groups,
                                     channels, x.shape().to_string()));
    }
    check_shape("group_norm", {"weight", weight}, {channels}, {"x", x});
    check_shape("group_norm", {"bias", bias}, {channels}, {"x", x});
    check_range("group_norm", "epsilon", attrs.epsilon, 0, INFINITY);
    const Shape sets{x.size(0), attrs.groups};
    Array y = exec.fresh_output(x.shape(), attrs.dtype.value_or(x.dtype));
    const Array mean = exec.empty(sets, compute_dtype(x.dtype));
    const Array variance = exec.empty(sets, compute_dtype(x.dtype));
    exec.run<kernels::ChannelMomentsPlan>(x.view(), mean.view(), variance.view());
    const View weight_view = weight.view(), bias_view = bias.view();
    const kernels::ChannelNorm norm{.mean = mean.view(),
                                    .variance = variance.view(),
                                    .epsilon = attrs.epsilon,
                                    .weight = weight.defined() ? &weight_view : nullptr,
                                    .bias = bias.defined() ? &bias_view : nullptr};
    exec.launch([&](auto& stream) { kernels::channel_norm(stream, x.view(), norm, nullptr, y.view()); });
    return {{x, weight, mean, variance}, std::move(y)};
}

void GroupNorm::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const View x = saved.x.view(), weight = saved.weight.view();
    const kernels::ChannelNorm norm{.mean = saved.mean.view(),
                                    .variance = saved.variance.view(),
                                    .epsilon = attrs.epsilon,
                                    .weight = saved.weight.defined() ? &weight : nullptr};
    const kernels::ChannelNormInputs inputs{.x = &x, .dy = dy.view()};
    JointTargets targets(exec, sink);
    const JointTarget& dweight = targets.ask(1);
    const JointTarget& dbias = targets.ask(2);
    const JointTarget& dx = targets.ask(0, dy);
    exec.run<kernels::ChannelNormGradientPlan>(inputs, norm, kernels::ChannelNormGradients{dx, dweight, dbias, {}});
}

std::vector<Sample<GroupNorm::Attrs>> GroupNorm::samples() {
    using I = SampleInput;
    return {
        {"images", {.groups = 2}, {I::normal({2, 4, 3, 2}), I::normal({4}), I::normal({4})}},
        {"one group", {.epsilon = 1e-3}, {I::normal({3, 4, 5}), I::normal({4}), I::normal({4})}},
        {"instances", {.groups = 3}, {I::normal({2, 3, 5}), I::none(), I::none()}},
        {"no bias", {.groups = 2}, {I::normal({2, 4, 5}), I::normal({4}), I::none()}},
        {"rows", {.groups = 2}, {I::normal({3, 8}), I::normal({8}), I::normal({8})}},
        {"no images", {.groups = 2}, {I::normal({0, 4, 5}), I::normal({4}), I::normal({4})}},
        {"groups",
         {.groups = 3},
         {I::normal({2, 4, 5}), I::none(), I::none()},
         "3 groups do not divide the 4 channels"},
        {"no groups", {.groups = 0}, {I::normal({2, 4, 5}), I::none(), I::none()}, "group_norm: 0 groups"},
        {"weight", {}, {I::normal({2, 4, 5}), I::normal({5}), I::none()}, "group_norm: weight [5]"},
        {"bias", {}, {I::normal({2, 4, 5}), I::none(), I::normal({1, 4})}, "group_norm: bias [1, 4]"},
        {"no channel axis", {}, {I::normal({4}), I::none(), I::none()}, "group_norm: x [4] must be [N, C, ...]"},
        {"integers", {}, {I::index({4, 6}, 3), I::none(), I::none()}, "group_norm: x must be floating"},
        {"epsilon", {.epsilon = -1}, {I::normal({4, 6}), I::none(), I::none()}, "group_norm: epsilon"},
    };
}

}  // namespace ops

Tensor group_norm(Tensor x, std::int64_t groups, Tensor weight, Tensor bias, double epsilon) {
    check_defined("group_norm", {{"x", x}});
    const std::optional<Dtype> dtype = autocast_of(x);
    return apply<ops::GroupNorm>({groups, epsilon, dtype}, std::move(x), std::move(weight), std::move(bias));
}

Tensor instance_norm(Tensor x, Tensor weight, Tensor bias, double epsilon) {
    return as_op("instance_norm", [&] {
        check_form("instance_norm", {"x", x}, x.rank() >= 2, "[N, C, ...]");
        const std::int64_t channels = std::max<std::int64_t>(1, x.size(1));
        if (x.numel() > 0 && x.numel() == x.size(0) * channels) {
            throw ShapeError(
                fmt::format("instance_norm: x {} has one value in each channel of an image, but a variance needs two",
                            x.shape().to_string()));
        }
        return group_norm(std::move(x), channels, std::move(weight), std::move(bias), epsilon);
    });
}

}  // namespace headroom
