#include <headroom/core/ops/prod.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/reduced.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom {

namespace ops {

OpResult<Prod::Saved, Array> Prod::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("prod", {{"x", x}});
    const Reduced to = reduced("prod", x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, is_floating(x.dtype) ? x.dtype : Dtype::i64);
    exec.run<kernels::ProductPlan>(x.view(), false, seen_as(y, to.kept));
    return {{x, y}, y};
}

/// dx = dy y / x where x is not 0, which is 0 if another factor is; where it is the only 0, dy times all others.
void Prod::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto dx = sink.destination(0);
    if (!dx) return;
    const View x = saved.x.view();
    const View y = stretched("prod", saved.y, saved.x.shape(), attrs);
    const View from = stretched("prod", dy, saved.x.shape(), attrs);
    const Dtype wide = compute_dtype(dy.dtype);
    const Array zeros = exec.empty_like(from.shape, from.strides, wide, Category::workspace);
    const Array others = exec.empty_like(from.shape, from.strides, wide, Category::workspace);
    const Array at_zero = exec.empty_like(from.shape, from.strides, wide, Category::workspace);
    exec.run<kernels::ZerosPlan>(x, zeros.view());
    exec.run<kernels::ProductPlan>(x, true, others.view());
    exec.launch([&](auto& stream) {
        kernels::map(stream, kernels::Mul{}, from, others.view(), others.view());
        kernels::map(stream, kernels::Affine{1.0, -1.0}, zeros.view(), zeros.view());
        kernels::where_backward(stream, zeros.view(), false, others.view(), 0.0f, at_zero.view());
        kernels::map_backward_a(stream, kernels::ProductFactor{}, x, y, from, dx.beta, dx.view());
        kernels::where_backward(stream, x, false, at_zero.view(), 1.0f, dx.view());
    });
}

std::vector<Sample<ReduceAttrs>> Prod::samples() {
    auto all = reduction_samples(&SampleInput::positive, true);
    all.push_back({"integers", {.axes = {0}}, {SampleInput::index({4, 3}, 3)}});
    return all;
}

}  // namespace ops

Tensor prod(Tensor x, const Axes& axes, bool keepdim) { return apply<ops::Prod>({axes, keepdim}, std::move(x)); }

}  // namespace headroom
