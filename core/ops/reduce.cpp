#include <headroom/core/ops/reduce.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/internal/reduced.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

using In = SampleInput;

}  // namespace

OpResult<Sum::Saved, Array> Sum::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("sum", {{"x", x}});
    const Reduced to = reduced("sum", x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, is_floating(x.dtype) ? x.dtype : Dtype::i64);
    exec.run<kernels::SumPlan>(x.view(), 1.0, seen_as(y, to.kept), 0.0f);
    return {{}, std::move(y)};
}

void Sum::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const View from = stretched("sum", dy, dx.array.shape(), attrs);
        exec.launch([&](auto& stream) { kernels::sum_backward(stream, from, 1.0, dx.view(), dx.beta); });
    }
}

std::vector<Sample<ReduceAttrs>> Sum::samples() { return reduction_samples(&In::normal, true); }

OpResult<Mean::Saved, Array> Mean::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("mean", {{"x", x}});
    const Reduced to = reduced("mean", x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, x.dtype);
    const double scale = 1.0 / static_cast<double>(to.count);
    exec.run<kernels::SumPlan>(x.view(), scale, seen_as(y, to.kept), 0.0f);
    return {{}, std::move(y)};
}

void Mean::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const Reduced to = reduced("mean", dx.array.shape(), attrs.axes, attrs.keepdim);
        const double scale = 1.0 / static_cast<double>(to.count);
        exec.launch(
            [&](auto& stream) { kernels::sum_backward(stream, seen_as(dy, to.kept), scale, dx.view(), dx.beta); });
    }
}

std::vector<Sample<ReduceAttrs>> Mean::samples() {
    auto all = reduction_samples(&In::normal, false);
    all.push_back({"integers", {}, {In::index({4}, 3)}, "x must be floating"});
    return all;
}

template <bool kLargest>
OpResult<typename Extremum<kLargest>::Saved, Array> Extremum<kLargest>::forward(Exec& exec, const Attrs& attrs,
                                                                                const Array& x) {
    check_defined(info.name, {{"x", x}});
    const Reduced to = chosen(info.name, x.shape(), attrs.axes, attrs.keepdim);
    Array y = to.like(exec, x, x.dtype);
    const View kept = seen_as(y, to.kept);
    exec.run<std::conditional_t<kLargest, kernels::AmaxPlan, kernels::AminPlan>>(x.view(), kept);
    return {{x, y}, y};
}

template <bool kLargest>
void Extremum<kLargest>::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const View x = saved.x.view();
        const View y = stretched(info.name, saved.y, saved.x.shape(), attrs);
        const View from = stretched(info.name, dy, saved.x.shape(), attrs);
        exec.run<kernels::ExtremumGradientPlan>(x, y, from, dx.view(), dx.beta);
    }
}

template <bool kLargest>
std::vector<Sample<ReduceAttrs>> Extremum<kLargest>::samples() {
    auto all = reduction_samples(&In::distinct, false);
    all.push_back({"of nothing", {.axes = {0}}, {In::normal({0, 3})}, "no elements to choose from"});
    all.push_back({"of a scalar", {.axes = {-1}}, {In::distinct({})}});
    all.push_back({"integers", {.axes = {1}}, {In::index({4, 7}, 9)}});
    all.push_back({"truth values", {.axes = {1}}, {In::boolean({4, 3})}});
    return all;
}

template struct Extremum<true>;
template struct Extremum<false>;

template <bool kRoot>
OpResult<typename Spread<kRoot>::Saved, Array> Spread<kRoot>::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating(info.name, {{"x", x}});
    const Reduced to = reduced(info.name, x.shape(), attrs.axes, attrs.keepdim);
    const Dtype wide = compute_dtype(x.dtype);
    Array y = to.like(exec, x, x.dtype);
    Array mean = exec.empty_like(to.kept, x.strides(), wide);
    const WideResult result(exec, y, to.kept);
    exec.run<kernels::MomentsPlan>(x.view(), attrs.correction, mean.view(), result.view());
    if (kRoot) exec.launch([&](auto& stream) { kernels::map(stream, kernels::Sqrt{}, result.view(), result.view()); });
    result.round(exec);
    if constexpr (kRoot) {
        return {{x, std::move(mean), y}, y};
    } else {
        return {{x, std::move(mean)}, std::move(y)};
    }
}

template <bool kRoot>
void Spread<kRoot>::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const auto dx = sink.destination(0);
    if (!dx) return;
    View from = stretched(info.name, dy, saved.x.shape(), attrs);
    Array scaled;
    if constexpr (kRoot) {  // of the variance: dy / (2 y)
        scaled = exec.empty_like(from.shape, from.strides, compute_dtype(dy.dtype), Category::workspace);
        const View root = stretched(info.name, saved.y, saved.x.shape(), attrs);
        exec.launch([&](auto& stream) {
            kernels::map(stream, kernels::QuotientOrZero{}, from, root, scaled.view());
            kernels::map(stream, kernels::Affine{0.5, 0.0}, scaled.view(), scaled.view());
        });
        from = scaled.view();
    }
    exec.launch([&](auto& stream) {
        kernels::variance_backward(stream, saved.x.view(), saved.mean.view(), from, attrs.correction, dx.view(),
                                   dx.beta);
    });
}

template <bool kRoot>
std::vector<Sample<ReduceAttrs>> Spread<kRoot>::samples() {
    auto all = reduction_samples(&In::normal, false);
    all.push_back({"of the whole population", {.axes = {1}, .correction = 0.0}, {In::normal({4, 6})}});
    all.push_back({"integers", {}, {In::index({4}, 3)}, "x must be floating"});
    return all;
}

template struct Spread<false>;
template struct Spread<true>;

template <bool kLargest>
OpResult<typename Position<kLargest>::Saved, Array> Position<kLargest>::forward(Exec& exec, const Attrs& attrs,
                                                                                const Array& x) {
    check_defined(info.name, {{"x", x}});
    const Reduced to = chosen(info.name, x.shape(), attrs.axis, attrs.keepdim);
    Array y = to.like(exec, x, Dtype::i64);
    const bool scalar = x.rank() == 0;
    const View from = scalar ? seen_as(x, {1}) : x.view();
    const View positions = seen_as(y, scalar ? Shape{1} : to.kept);
    const int axis = scalar ? 0 : x.shape().axis(attrs.axis);
    exec.launch([&](auto& stream) {
        if constexpr (kLargest) {
            kernels::argmax(stream, from, axis, positions);
        } else {
            kernels::argmin(stream, from, axis, positions);
        }
    });
    return {{}, std::move(y)};
}

template <bool kLargest>
std::vector<Sample<typename Position<kLargest>::Attrs>> Position<kLargest>::samples() {
    return {{"last axis", {}, {In::distinct({3, 5})}},
            {"first axis, kept", {.axis = 0, .keepdim = true}, {In::distinct({5, 3})}},
            {"middle axis", {.axis = 1}, {In::distinct({2, 3, 4})}},
            {"empty result", {.axis = 1}, {In::distinct({0, 3})}},
            {"of nothing", {.axis = 0}, {In::distinct({0, 3})}, "no elements to choose from"},
            {"axis outside", {.axis = 2}, {In::distinct({2, 3})}, "axis 2 is outside"},
            {"of a scalar", {}, {In::distinct({})}},
            {"integers, some equal", {.axis = 1}, {In::index({4, 7}, 5)}}};
}

template struct Position<true>;
template struct Position<false>;

}  // namespace ops

Tensor sum(Tensor x, const Axes& axes, bool keepdim) { return apply<ops::Sum>({axes, keepdim}, std::move(x)); }

Tensor mean(Tensor x, const Axes& axes, bool keepdim) { return apply<ops::Mean>({axes, keepdim}, std::move(x)); }

Tensor max(Tensor x, const Axes& axes, bool keepdim) { return apply<ops::Max>({axes, keepdim}, std::move(x)); }

Tensor min(Tensor x, const Axes& axes, bool keepdim) { return apply<ops::Min>({axes, keepdim}, std::move(x)); }

Tensor var(Tensor x, const Axes& axes, double correction, bool keepdim) {
    return apply<ops::Var>({axes, keepdim, correction}, std::move(x));
}

Tensor standard_deviation(Tensor x, const Axes& axes, double correction, bool keepdim) {
    return apply<ops::Std>({axes, keepdim, correction}, std::move(x));
}

namespace {

/// How many elements are not 0, as i64, and of how many.
struct TrueOf {
    Tensor count;
    std::int64_t all;
};

TrueOf count_true(const char* op, Tensor x, const Axes& axes, bool keepdim) {
    check_defined(op, {{"x", x}});
    const std::int64_t all = ops::reduced(op, x.shape(), axes, keepdim).count;
    if (x.dtype() != Dtype::boolean) x = ne(std::move(x), 0.0);
    return {sum(std::move(x), axes, keepdim), all};
}

}  // namespace

Tensor any(Tensor x, const Axes& axes, bool keepdim) {
    return as_op("any", [&] { return ne(count_true("any", std::move(x), axes, keepdim).count, 0.0); });
}

Tensor all(Tensor x, const Axes& axes, bool keepdim) {
    return as_op("all", [&] {
        auto [count, all] = count_true("all", std::move(x), axes, keepdim);
        return eq(std::move(count), static_cast<double>(all));
    });
}

Tensor argmax(Tensor x, int axis, bool keepdim) { return apply<ops::Argmax>({axis, keepdim}, std::move(x)); }

Tensor argmin(Tensor x, int axis, bool keepdim) { return apply<ops::Argmin>({axis, keepdim}, std::move(x)); }

}  // namespace headroom
