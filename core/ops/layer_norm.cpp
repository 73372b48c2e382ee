#include <headroom/core/ops/layer_norm.hpp>

#include <cmath>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>

namespace headroom {

namespace ops {

OpResult<LayerNorm::Saved, Array> LayerNorm::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& gamma,
                                                     const Array& beta) {
    check_floating("layer_norm", {{"x", x}, {"gamma", gamma, kOptional}, {"beta", beta, kOptional}});
    check_form("layer_norm", {"x", x}, x.rank() > 0, "[..., n]");
    check_shape("layer_norm", {"gamma", gamma}, {x.size(-1)}, {"x", x});
    check_shape("layer_norm", {"beta", beta}, {x.size(-1)}, {"x", x});
    check_range("layer_norm", "epsilon", attrs.epsilon, 0, INFINITY);
    Shape rows = x.shape();
    rows.erase(rows.rank() - 1);
    const Dtype compute = compute_dtype(x.dtype);
    Array y = exec.fresh_output(x.shape(), attrs.dtype.value_or(x.dtype));
    Array mean = exec.empty(rows, compute);
    Array rstd = exec.empty(rows, compute);
    const View gamma_view = gamma.view(), beta_view = beta.view();
    exec.launch([&](auto& stream) {
        kernels::layer_norm(stream, x.view(), gamma.defined() ? &gamma_view : nullptr,
                            beta.defined() ? &beta_view : nullptr, attrs.epsilon, y.view(), mean.view(), rstd.view());
    });
    return {{x, gamma, std::move(mean), std::move(rstd)}, std::move(y)};
}

void LayerNorm::backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
    const View gamma = saved.gamma.view(), dy_view = dy.view();
    JointTargets targets(exec, sink);
    const JointTarget& dgamma = targets.ask(1);
    const JointTarget& dbeta = targets.ask(2);
    const JointTarget& dx = targets.ask(0, dy);
    exec.run<kernels::LayerNormGradientPlan>(saved.x.view(), dy_view, saved.gamma.defined() ? &gamma : nullptr,
                                             saved.mean.view(), saved.rstd.view(),
                                             kernels::LayerNormGradients{dx, dgamma, dbeta});
}

std::vector<Sample<LayerNorm::Attrs>> LayerNorm::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({4, 6}), I::normal({6}), I::normal({6})}},
        {"batches", {.epsilon = 1e-3}, {I::normal({2, 3, 5}), I::normal({5}), I::normal({5})}},
        {"no parameters", {}, {I::normal({3, 5}), I::none(), I::none()}},
        {"no beta", {}, {I::normal({3, 5}), I::normal({5}), I::none()}},
        {"no gamma", {}, {I::normal({3, 5}), I::none(), I::normal({5})}},
        {"one row", {}, {I::normal({7}), I::normal({7}), I::normal({7})}},
        {"no rows", {}, {I::normal({0, 5}), I::normal({5}), I::normal({5})}},
        {"gamma", {}, {I::normal({4, 6}), I::normal({4}), I::none()}, "layer_norm: gamma [4]"},
        {"beta", {}, {I::normal({4, 6}), I::none(), I::normal({1, 6})}, "layer_norm: beta [1, 6]"},
        {"no axis", {}, {I::normal({}), I::none(), I::none()}, "layer_norm: x [] must be [..., n]"},
        {"integers", {}, {I::index({4, 6}, 3), I::none(), I::none()}, "layer_norm: x must be floating"},
        {"epsilon", {.epsilon = -1}, {I::normal({4, 6}), I::none(), I::none()}, "layer_norm: epsilon"},
    };
}

}  // namespace ops

Tensor layer_norm(Tensor x, Tensor gamma, Tensor beta, double epsilon) {
    const std::optional<Dtype> dtype = autocast_of(x);
    return apply<ops::LayerNorm>({epsilon, dtype}, std::move(x), std::move(gamma), std::move(beta));
}

}  // namespace headroom
