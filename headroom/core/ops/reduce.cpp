#include <headroom/core/ops/reduce.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

void Axes::add(std::int64_t axis) {
    if (count_ == kMaxRank || axis < -kMaxRank || axis >= kMaxRank) {
        throw ShapeError(fmt::format("axes: {} is outside of [-{}, {}), or there are more than {}", axis, kMaxRank,
                                     kMaxRank, kMaxRank));
    }
    axes_[count_++] = static_cast<std::int8_t>(axis);
}

namespace ops {

namespace {

/// The shape of a result: as kernels want it, with reduced axes of size 1, and as the caller wants it.
struct Reduced {
    Shape kept;
    Shape shape;
    std::int64_t count = 1;  ///< elements that become one
};

Reduced reduced(const char* op, const Shape& x, const Axes& axes, bool keepdim) {
    unsigned mask = 0;
    for (const int wanted : axes) {
        const unsigned bit = 1u << check_axis_or_scalar(op, x, wanted);
        if (mask & bit) throw ShapeError(fmt::format("{}: axis {} is named twice", op, wanted));
        mask |= bit;
    }
    if (axes.begin() == axes.end()) mask = ~0u;
    Reduced result;
    for (int i = 0; i < x.rank(); ++i) {
        const bool gone = mask >> i & 1u;
        result.kept.push_back(gone ? 1 : x[i]);
        if (gone) result.count *= x[i];
        if (!gone || keepdim) result.shape.push_back(gone ? 1 : x[i]);
    }
    return result;
}

/// The same where there must be something to choose from.
Reduced chosen(const char* op, const Shape& x, const Axes& axes, bool keepdim) {
    const Reduced result = reduced(op, x, axes, keepdim);
    if (result.count == 0)
        throw ShapeError(fmt::format("{}: nothing to choose from in the shape {}", op, x.to_string()));
    return result;
}

/// A row-major array whose elements are seen under another shape.
View seen_as(const Array& array, const Shape& shape) {
    View view = array.view();
    view.shape = shape;
    view.strides = contiguous_strides(shape);
    return view;
}

/// dy with reduced axes of size 1, as it stretches to x.
View stretched(const char* op, const Array& dy, const Shape& x, const ReduceAttrs& attrs) {
    return seen_as(dy, reduced(op, x, attrs.axes, attrs.keepdim).kept);
}

using In = SampleInput;

std::vector<Sample<ReduceAttrs>> common_samples(In (*input)(Shape), bool of_nothing) {
    std::vector<Sample<ReduceAttrs>> all{
        {"all", {}, {input({3, 5})}},
        {"last axis", {.axes = {-1}}, {input({3, 5})}},
        {"first axis, kept", {.axes = {0}, .keepdim = true}, {input({5, 3})}},
        {"outer axes", {.axes = {0, 2}}, {input({2, 3, 4})}},
        {"inner axes, kept", {.axes = {1, -1}, .keepdim = true}, {input({2, 3, 4})}},
        {"axis outside", {.axes = {2}}, {input({2, 3})}, "axis 2 is outside"},
        {"axis twice", {.axes = {1, -1}}, {input({2, 3})}, "named twice"},
        {"nothing", {}, {In::none()}, "undefined"},
        {"empty result", {.axes = {1}}, {input({0, 3})}},
    };
    if (of_nothing) {
        all.push_back({"of a scalar", {}, {input({})}});
        all.push_back({"of nothing", {.axes = {0}}, {input({0, 3})}});
    }
    return all;
}

}  // namespace

Result<Sum::Saved, Array> Sum::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("sum", {{"x", x}});
    const Reduced to = reduced("sum", x.shape(), attrs.axes, attrs.keepdim);
    Array y = exec.empty(to.shape, is_floating(x.dtype) ? x.dtype : Dtype::i64);
    exec.run<kernels::SumPlan>(x.view(), 1.0, seen_as(y, to.kept), 0.0f);
    return {{}, std::move(y)};
}

void Sum::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const View from = stretched("sum", dy, dx.array.shape(), attrs);
        exec.launch([&](auto& stream) { kernels::sum_backward(stream, from, 1.0, dx.view(), dx.beta); });
    }
}

std::vector<Sample<ReduceAttrs>> Sum::samples() { return common_samples(&In::normal, true); }

Result<Mean::Saved, Array> Mean::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("mean", {{"x", x}});
    const Reduced to = reduced("mean", x.shape(), attrs.axes, attrs.keepdim);
    Array y = exec.empty(to.shape, x.dtype);
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
    auto all = common_samples(&In::normal, false);
    all.push_back({"integers", {}, {In::index({4}, 3)}, "x must be floating"});
    return all;
}

template <bool kLargest>
Result<typename Extremum<kLargest>::Saved, Array> Extremum<kLargest>::forward(Exec& exec, const Attrs& attrs,
                                                                              const Array& x) {
    check_defined(info.name, {{"x", x}});
    const Reduced to = chosen(info.name, x.shape(), attrs.axes, attrs.keepdim);
    Array y = exec.empty(to.shape, x.dtype);
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
    auto all = common_samples(&In::distinct, false);
    all.push_back({"of nothing", {.axes = {0}}, {In::normal({0, 3})}, "nothing to choose from"});
    all.push_back({"of a scalar", {.axes = {-1}}, {In::distinct({})}});
    all.push_back({"integers", {.axes = {1}}, {In::index({4, 7}, 9)}});
    all.push_back({"truth values", {.axes = {1}}, {In::boolean({4, 3})}});
    return all;
}

template struct Extremum<true>;
template struct Extremum<false>;

Result<Var::Saved, Array> Var::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("var", {{"x", x}});
    const Reduced to = reduced("var", x.shape(), attrs.axes, attrs.keepdim);
    const Dtype wide = compute_dtype(x.dtype);
    Array y = exec.empty(to.shape, x.dtype);
    Array mean = exec.empty(to.kept, wide);
    const Array variance = is_half(x.dtype) ? exec.empty(to.kept, wide, Category::workspace) : y;
    const View kept = seen_as(variance, to.kept);
    exec.run<kernels::MomentsPlan>(x.view(), attrs.correction, mean.view(), kept);
    if (is_half(x.dtype))
        exec.launch([&](auto& stream) { kernels::copy(stream, variance.view(), seen_as(y, to.kept)); });
    return {{x, std::move(mean)}, std::move(y)};
}

void Var::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const View from = stretched("var", dy, saved.x.shape(), attrs);
        exec.launch([&](auto& stream) {
            kernels::variance_backward(stream, saved.x.view(), saved.mean.view(), from, attrs.correction, dx.view(),
                                       dx.beta);
        });
    }
}

std::vector<Sample<ReduceAttrs>> Var::samples() {
    auto all = common_samples(&In::normal, false);
    all.push_back({"of the whole population", {.axes = {1}, .correction = 0.0}, {In::normal({4, 6})}});
    all.push_back({"integers", {}, {In::index({4}, 3)}, "x must be floating"});
    return all;
}

template <bool kLargest>
Result<typename Position<kLargest>::Saved, Array> Position<kLargest>::forward(Exec& exec, const Attrs& attrs,
                                                                              const Array& x) {
    check_defined(info.name, {{"x", x}});
    const Reduced to = chosen(info.name, x.shape(), attrs.axis, attrs.keepdim);
    Array y = exec.empty(to.shape, Dtype::i64);
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
            {"of nothing", {.axis = 0}, {In::distinct({0, 3})}, "nothing to choose from"},
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

Tensor argmax(Tensor x, int axis, bool keepdim) { return apply<ops::Argmax>({axis, keepdim}, std::move(x)); }

Tensor argmin(Tensor x, int axis, bool keepdim) { return apply<ops::Argmin>({axis, keepdim}, std::move(x)); }

}  // namespace headroom
