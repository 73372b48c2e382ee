#include <headroom/core/ops/logsumexp.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/reduced.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom {

namespace ops {

OpResult<LogSumExp::Saved, Array> LogSumExp::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("logsumexp", {{"x", x}});
    const Reduced to = reduced("logsumexp", x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, x.dtype);
    Array largest = exec.empty_like(to.kept, x.strides(), compute_dtype(x.dtype));
    Array sum = exec.empty_like(largest, largest.dtype);
    exec.run<kernels::ExpSumPlan>(x.view(), largest.view(), sum.view());
    exec.launch([&](auto& stream) {
        kernels::map(stream, kernels::LogSumExpResult{}, sum.view(), largest.view(), seen_as(y, to.kept));
    });
    return {{x, std::move(largest), std::move(sum)}, y};
}

/// By the largest and the sum: y, which is rounded, would lose digits of x - y where elements share an offset.
void LogSumExp::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto dx = sink.destination(0);
    if (!dx) return;
    const View from = stretched("logsumexp", dy, saved.x.shape(), attrs);
    const Array scaled = exec.empty_like(saved.sum, saved.sum.dtype, Category::workspace);
    exec.launch([&](auto& stream) {
        kernels::map(stream, kernels::QuotientOrZero{}, from, saved.sum.view(), scaled.view());
        kernels::map_backward_a(stream, kernels::LogSumExpTerm{}, saved.x.view(), saved.largest.view(), scaled.view(),
                                dx.beta, dx.view());
    });
}

std::vector<Sample<ReduceAttrs>> LogSumExp::samples() {
    auto all = reduction_samples(&SampleInput::normal, false);
    all.push_back({"of a scalar", {}, {SampleInput::normal({})}});
    all.push_back({"integers", {}, {SampleInput::index({4}, 3)}, "x must be floating"});
    return all;
}

}  // namespace ops

Tensor logsumexp(Tensor x, const Axes& axes, bool keepdim) {
    return apply<ops::LogSumExp>({axes, keepdim}, std::move(x));
}

}  // namespace headroom
