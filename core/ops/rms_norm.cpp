#include <headroom/core/ops/rms_norm.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check(const Array& x, const Array& gamma, double epsilon) {
    if (!is_floating(x.dtype) || (gamma.defined() && !is_floating(gamma.dtype))) {
        throw DtypeError(
            fmt::format("rms_norm: x and gamma must be floating, got {} and {}", name(x.dtype), name(gamma.dtype)));
    }
    if (x.rank() == 0) throw ShapeError("rms_norm: x has no axis to normalise over, its shape is []");
    if (!(epsilon >= 0)) throw Error(fmt::format("rms_norm: epsilon must not be negative, got {}", epsilon));
    if (gamma.defined() && (gamma.rank() != 1 || gamma.size(0) != x.size(-1))) {
        throw ShapeError(fmt::format("rms_norm: gamma {} does not match x {}; it must be [{}]", gamma.shape().text(),
                                     x.shape().text(), x.size(-1)));
    }
}

}  // namespace

Result<RmsNorm::Saved, Array> RmsNorm::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& gamma) {
    check(x, gamma, attrs.epsilon);
    Shape rows = x.shape();
    rows.erase(rows.rank() - 1);
    Array y = exec.empty(x.shape(), x.dtype);
    Array rstd = exec.empty(rows, x.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
    const View gamma_view = gamma.view();
    exec.launch([&](auto& stream) {
        kernels::rms_norm(stream, x.view(), gamma.defined() ? &gamma_view : nullptr, attrs.epsilon, y.view(),
                          rstd.view());
    });
    return {{x, gamma, std::move(rstd)}, std::move(y)};
}

void RmsNorm::backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
    const View x = saved.x.view(), gamma = saved.gamma.view(), dy_view = dy.view();
    JointTargets targets(exec, sink);
    const JointTarget& dgamma = targets.ask(1);
    const JointTarget& dx = targets.ask(0, dy);
    const Scratch scratch = exec.scratch(kernels::rms_norm_backward_scratch(exec.stream(), x));
    exec.launch([&](auto& stream) {
        kernels::rms_norm_backward(
            stream, x, dy_view, saved.gamma.defined() ? &gamma : nullptr, saved.rstd.view(),
            {.x = dx.pointer(), .x_beta = dx.beta, .gamma = dgamma.pointer(), .gamma_beta = dgamma.beta},
            scratch.data());
    });
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
        {"no axis", {}, {I::normal({}), I::none()}, "rms_norm: x has no axis"},
        {"integers", {}, {I::index({4, 6}, 3), I::none()}, "rms_norm: x and gamma must be floating"},
        {"epsilon", {.epsilon = -1}, {I::normal({4, 6}), I::none()}, "rms_norm: epsilon"},
    };
}

}  // namespace ops

Tensor rms_norm(Tensor x, Tensor gamma, double epsilon) {
    return apply<ops::RmsNorm>({epsilon}, std::move(x), std::move(gamma));
}

}  // namespace headroom
