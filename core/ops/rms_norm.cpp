#include <headroom/core/ops/rms_norm.hpp>

#include <cmath>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>

namespace headroom {

namespace ops {

OpResult<RmsNorm::Saved, Array> RmsNorm::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& gamma) {
    check_floating("rms_norm", {{"x", x}, {"gamma", gamma, kOptional}});
    check_form("rms_norm", {"x", x}, x.rank() > 0, "[..., n]");
    check_shape("rms_norm", {"gamma", gamma}, {x.size(-1)}, {"x", x});
    check_range("rms_norm", "epsilon", attrs.epsilon, 0, INFINITY);
    Shape rows = x.shape();
    rows.erase(rows.rank() - 1);
    Array y = exec.fresh_output(x.shape(), attrs.dtype.value_or(x.dtype));
    Array rstd = exec.empty(rows, compute_dtype(x.dtype));
    const View gamma_view = gamma.view();
    exec.launch([&](auto& stream) {
        kernels::rms_norm(stream, x.view(), gamma.defined() ? &gamma_view : nullptr, attrs.epsilon, y.view(),
                          rstd.view());
    });
    return {{x, gamma, std::move(rstd)}, std::move(y)};
}

void RmsNorm::backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
    const View gamma = saved.gamma.view(), dy_view = dy.view();
    JointTargets targets(exec, sink);
    const JointTarget& dgamma = targets.ask(1);
    const JointTarget& dx = targets.ask(0, dy);
    exec.run<kernels::RmsNormGradientPlan>(saved.x.view(), dy_view, saved.gamma.defined() ? &gamma : nullptr,
                                           saved.rstd.view(), kernels::RmsNormGradients{dx, dgamma});
}

std::vector<Sample<RmsNorm::Attrs>> RmsNorm::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({4, 6}), I::normal({6})}},
        {"batches", {.epsilon = 1e-3}, {I::normal({2, 3, 5}), I::normal({5})}},
        {"no gamma", {}, {I::normal({3, 5}), I::none()}},
        {"one row", {}, {I::normal({7}), I::normal({7})}},
        {"no rows", {}, {I::normal({0, 5}), I::normal({5})}},
        {"gamma", {}, {I::normal({4, 6}), I::normal({4})}, "rms_norm: gamma [4]"},
        {"no axis", {}, {I::normal({}), I::none()}, "rms_norm: x [] must be [..., n]"},
        {"integers", {}, {I::index({4, 6}, 3), I::none()}, "rms_norm: x must be floating"},
        {"epsilon", {.epsilon = -1}, {I::normal({4, 6}), I::none()}, "rms_norm: epsilon"},
    };
}

}  // namespace ops

Tensor rms_norm(Tensor x, Tensor gamma, double epsilon) {
    const std::optional<Dtype> dtype = autocast_of(x);
    return apply<ops::RmsNorm>({epsilon, dtype}, std::move(x), std::move(gamma));
}

}  // namespace headroom
