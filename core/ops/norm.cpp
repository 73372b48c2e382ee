#include <headroom/core/ops/norm.hpp>

#include <cmath>

#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/internal/reduced.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Norm::Saved, Array> Norm::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("norm", {{"x", x}});
    const Reduced to = reduced("norm", x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, x.dtype);
    const WideResult result(exec, y, to.kept);
    exec.run<kernels::SquaresPlan>(x.view(), result.view());
    exec.launch([&](auto& stream) { kernels::map(stream, kernels::Sqrt{}, result.view(), result.view()); });
    result.round(exec);
    return {{x, y}, y};
}

void Norm::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto dx = sink.destination(0);
    if (!dx) return;
    const View y = stretched("norm", saved.y, saved.x.shape(), attrs);
    const View from = stretched("norm", dy, saved.x.shape(), attrs);
    const Array scaled = exec.empty_like(from.shape, from.strides, compute_dtype(dy.dtype), Category::workspace);
    exec.launch([&](auto& stream) {
        const View x = saved.x.view();
        kernels::map(stream, kernels::QuotientOrZero{}, from, y, scaled.view());
        kernels::map_backward_a(stream, kernels::Mul{}, x, x, scaled.view(), dx.beta, dx.view());
    });
}

std::vector<Sample<ReduceAttrs>> Norm::samples() {
    auto all = reduction_samples(&SampleInput::positive, false);
    all.push_back({"of nothing", {.axes = {0}}, {SampleInput::normal({0, 3})}});
    all.push_back({"integers", {}, {SampleInput::index({4}, 3)}, "x must be floating"});
    return all;
}

}  // namespace ops

namespace {

/// x^p, x not negative, whose gradient at 0 is 0.
Tensor power(Tensor x, double p) {
    if (p >= 1.0) return pow(std::move(x), p);
    const Tensor zero = eq(x, 0.0);
    return masked_fill(pow(masked_fill(std::move(x), zero, 1.0), p), zero, p > 0.0 ? 0.0 : INFINITY);
}

Tensor norm_of_powers(const Tensor& x, double p, const Axes& axes, bool keepdim) {
    const Dtype dtype = x.dtype();
    if (is_half(dtype)) return cast(norm_of_powers(cast(x, Dtype::f32), p, axes, keepdim), dtype);
    if (p < 0.0) ops::chosen("norm", x.shape(), axes, keepdim);
    return power(sum(power(abs(x), p), axes, keepdim), 1.0 / p);
}

}  // namespace

Tensor norm(Tensor x, double p, const Axes& axes, bool keepdim) {
    if (p == 2.0) return apply<ops::Norm>({axes, keepdim}, std::move(x));
    check_floating("norm", {{"x", x}});
    if (std::isnan(p)) throw Error("norm: p is NaN");
    return as_op("norm", [&] {
        const Dtype dtype = x.dtype();
        if (p == 0.0) return cast(sum(ne(std::move(x), 0.0), axes, keepdim), dtype);
        if (p == 1.0) return sum(abs(std::move(x)), axes, keepdim);
        if (p == INFINITY) return max(abs(std::move(x)), axes, keepdim);
        if (p == -INFINITY) return min(abs(std::move(x)), axes, keepdim);
        return norm_of_powers(x, p, axes, keepdim);
    });
}

}  // namespace headroom
