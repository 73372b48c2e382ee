#include <headroom/core/ops/batch_norm.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>

namespace headroom {

namespace ops {

namespace {

/// Which of BatchNorm's inputs.
enum : int { kX, kMean, kVariance, kWeight, kBias, kResidual };

}  // namespace

OpResult<BatchMoments::Saved, std::array<Array, 2>> BatchMoments::forward(Exec& exec, const Attrs&, const Array& x) {
    check_floating("batch_moments", {{"x", x}});
    check_form("batch_moments", {"x", x}, x.rank() >= 2, "[N, C, ...]");
    const std::int64_t channels = x.size(1);
    if (channels > 0 && x.numel() / channels < 2) {
        throw ShapeError(
            fmt::format("batch_moments: x {} has {} value per channel, but a variance needs two; use more images or "
                        "running statistics",
                        x.shape().to_string(), x.numel() == 0 ? "no" : "one"));
    }
    const Array mean = exec.empty({channels}, compute_dtype(x.dtype));
    const Array variance = exec.empty({channels}, compute_dtype(x.dtype));
    exec.run<kernels::ChannelMomentsPlan>(x.view(), mean.view(), variance.view());
    return {{}, {mean, variance}};
}

std::vector<Sample<BatchMoments::Attrs>> BatchMoments::samples() {
    using I = SampleInput;
    return {
        {"images", {}, {I::normal({2, 3, 4, 2}).without_gradient()}},
        {"rows", {}, {I::normal({6, 5}).without_gradient()}},
        {"no channels", {}, {I::normal({2, 0, 3}).without_gradient()}},
        {"one value", {}, {I::normal({1, 3, 1, 1})}, "batch_moments: x [1, 3, 1, 1] has one value per channel"},
        {"no image", {}, {I::normal({0, 3, 2, 2})}, "has no value per channel"},
        {"no channel axis", {}, {I::normal({4})}, "batch_moments: x [4] must be [N, C, ...]"},
        {"integers", {}, {I::index({4, 6}, 3)}, "batch_moments: x must be floating"},
    };
}

OpResult<BatchNorm::Saved, Array> BatchNorm::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& mean,
                                                     const Array& variance, const Array& weight, const Array& bias,
                                                     const Array& residual) {
    check_floating("batch_norm", {{"x", x},
                                  {"mean", mean},
                                  {"variance", variance},
                                  {"weight", weight, kOptional},
                                  {"bias", bias, kOptional},
                                  {"residual", residual, kOptional}});
    check_form("batch_norm", {"x", x}, x.rank() >= 2, "[N, C, ...]");
    check_shape("batch_norm", {"mean", mean}, {x.size(1)}, {"x", x});
    check_shape("batch_norm", {"variance", variance}, {x.size(1)}, {"x", x});
    check_shape("batch_norm", {"weight", weight}, {x.size(1)}, {"x", x});
    check_shape("batch_norm", {"bias", bias}, {x.size(1)}, {"x", x});
    if (residual.defined()) check_same_shape("batch_norm", {"residual", residual}, {"x", x});
    check_range("batch_norm", "epsilon", attrs.epsilon, 0, INFINITY);
    const bool keeps_x = !attrs.constant || exec.gradient_wanted(kWeight);
    const bool keeps_y = attrs.relu && (residual.defined() || !keeps_x);
    const unsigned kept = exec.saved_wanted() && keeps_x ? 1u << kX : 0u;
    Array y = exec.output(x.shape(), attrs.dtype.value_or(x.dtype), kept);
    const View weight_view = weight.view(), bias_view = bias.view(), residual_view = residual.view();
    const kernels::ChannelNorm norm{.mean = mean.view(),
                                    .variance = variance.view(),
                                    .epsilon = attrs.epsilon,
                                    .weight = weight.defined() ? &weight_view : nullptr,
                                    .bias = bias.defined() ? &bias_view : nullptr,
                                    .relu = attrs.relu};
    exec.launch([&](auto& stream) {
        kernels::channel_norm(stream, x.view(), norm, residual.defined() ? &residual_view : nullptr, y.view());
    });
    return {{keeps_x ? x : Array{}, mean, variance, weight, bias, keeps_y ? y : Array{}}, y};
}

void BatchNorm::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (!attrs.relu) sink.give(kResidual, dy);
    const View x = saved.x.view(), y = saved.y.view(), weight = saved.weight.view(), bias = saved.bias.view();
    const kernels::ChannelNorm norm{.mean = saved.mean.view(),
                                    .variance = saved.variance.view(),
                                    .epsilon = attrs.epsilon,
                                    .weight = saved.weight.defined() ? &weight : nullptr,
                                    .bias = saved.bias.defined() ? &bias : nullptr,
                                    .relu = attrs.relu};
    const kernels::ChannelNormInputs inputs{.x = saved.x.defined() ? &x : nullptr,
                                            .dy = dy.view(),
                                            .y = saved.y.defined() ? &y : nullptr,
                                            .constant = attrs.constant};
    JointTargets targets(exec, sink);
    const JointTarget& dweight = targets.ask(kWeight);
    const JointTarget& dbias = targets.ask(kBias);
    const JointTarget none;
    const JointTarget& dresidual = attrs.relu ? targets.ask(kResidual) : none;
    const JointTarget& dx = targets.ask(kX, dy);
    exec.run<kernels::ChannelNormGradientPlan>(inputs, norm,
                                               kernels::ChannelNormGradients{dx, dweight, dbias, dresidual});
}

std::vector<Sample<BatchNorm::Attrs>> BatchNorm::samples() {
    using I = SampleInput;
    // Differences of a result by x alone are the gradient of constant statistics only.
    const auto image = [](const char* label, Attrs attrs, I weight, I bias, I residual) {
        const I x = I::normal({2, 6, 3, 2}), numbers = I::normal({6}).without_gradient();
        return Sample<Attrs>{label,
                             attrs,
                             {attrs.constant ? x : x.without_gradient(), numbers, I::positive({6}).without_gradient(),
                              weight, bias, residual}};
    };
    // So large that bias or residual decide on which side of its kink a ReLU is, and differences do not cross it.
    constexpr double kLarge = 1e8;
    const I vector = I::normal({6}), values = I::normal({2, 6, 3, 2}), none = I::none();
    const I apart = I::distinct({6}), values_apart = I::distinct({2, 6, 3, 2});
    const auto refused = [](const char* label, Shape x, Shape mean, Shape weight, Shape residual, const char* part) {
        return Sample<Attrs>{
            label,
            {},
            {I::normal(x), I::normal(mean), I::normal(mean), I::normal(weight), I::none(), I::normal(residual)},
            part};
    };
    return {
        image("of x", {}, vector, vector, none),
        image("of x, relu", {.epsilon = kLarge, .relu = true}, vector, apart, none),
        image("of x, residual", {.epsilon = 1e-3}, vector, none, values),
        image("of x, residual and relu", {.epsilon = kLarge, .relu = true}, vector, none, values_apart),
        image("constant", {.constant = true}, vector, vector, none),
        image("constant, relu", {.epsilon = kLarge, .relu = true, .constant = true}, vector, apart, none),
        image("constant, no parameters", {.constant = true}, none, none, none),
        image("constant, no weight, relu", {.epsilon = kLarge, .relu = true, .constant = true}, none, apart, none),
        image("constant, residual and relu", {.epsilon = kLarge, .relu = true, .constant = true}, none, none,
              values_apart),
        {"rows",
         {.constant = true},
         {I::normal({4, 5}), I::normal({5}).without_gradient(), I::positive({5}).without_gradient(), I::normal({5}),
          I::none(), I::none()}},
        {"no images",
         {.constant = true},
         {I::normal({0, 3, 2}), I::normal({3}).without_gradient(), I::positive({3}).without_gradient(), I::normal({3}),
          I::normal({3}), I::none()}},
        refused("mean", {2, 3, 4}, {4}, {3}, {2, 3, 4}, "batch_norm: mean [4]"),
        refused("weight", {2, 3, 4}, {3}, {1, 3}, {2, 3, 4}, "batch_norm: weight [1, 3]"),
        refused("residual", {2, 3, 4}, {3}, {3}, {3, 4}, "batch_norm: residual [3, 4]"),
        refused("no channel axis", {4}, {4}, {4}, {4}, "batch_norm: x [4] must be [N, C, ...]"),
        {"epsilon",
         {.epsilon = -1},
         {I::normal({2, 3}), I::normal({3}), I::normal({3}), I::none(), I::none(), I::none()},
         "batch_norm: epsilon"},
    };
}

}  // namespace ops

BatchNormResult batch_norm(Tensor x, Tensor weight, Tensor bias, BatchNormOptions options) {
    return as_op("batch_norm", [&] {
        check_defined("batch_norm", {{"x", x}});
        auto [mean, variance] = apply<ops::BatchMoments>({}, x);
        const ops::BatchNorm::Attrs attrs{options.epsilon, options.relu, false, autocast_of(x)};
        Tensor y = apply<ops::BatchNorm>(attrs, std::move(x), mean, variance, std::move(weight), std::move(bias),
                                         std::move(options.residual));
        return BatchNormResult{std::move(y), std::move(mean), std::move(variance)};
    });
}

Tensor frozen_batch_norm(Tensor x, Tensor mean, Tensor variance, Tensor weight, Tensor bias, BatchNormOptions options) {
    return as_op("frozen_batch_norm", [&] {
        check_defined("frozen_batch_norm", {{"x", x}, {"mean", mean}, {"variance", variance}});
        if (mean.requires_grad() || variance.requires_grad()) {
            throw Error("frozen_batch_norm: mean and variance must not require a gradient; call detach() on them");
        }
        const ops::BatchNorm::Attrs attrs{options.epsilon, options.relu, true, autocast_of(x)};
        return apply<ops::BatchNorm>(attrs, std::move(x), std::move(mean), std::move(variance), std::move(weight),
                                     std::move(bias), std::move(options.residual));
    });
}

}  // namespace headroom
