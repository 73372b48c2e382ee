#include <headroom/core/ops/internal/reduced.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

void Axes::add(std::int64_t axis) {
    if (count_ == kMaxRank || axis < -kMaxRank || axis >= kMaxRank) {
        throw ShapeError(fmt::format("axes: {} is outside of [-{}, {}), or the list has more than {} axes", axis,
                                     kMaxRank, kMaxRank, kMaxRank));
    }
    axes_[count_++] = static_cast<std::int8_t>(axis);
}

namespace ops {

unsigned axes_mask(const char* op, const Shape& shape, const Axes& axes) {
    unsigned mask = 0;
    for (const int wanted : axes) {
        const unsigned bit = 1u << check_axis_or_scalar(op, shape, wanted);
        if (mask & bit) throw ShapeError(fmt::format("{}: axis {} is named twice", op, wanted));
        mask |= bit;
    }
    return mask;
}

Reduced reduced(const char* op, const Shape& x, const Axes& axes, bool keepdim) {
    unsigned mask = axes_mask(op, x, axes);
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

Reduced chosen(const char* op, const Shape& x, const Axes& axes, bool keepdim) {
    const Reduced result = reduced(op, x, axes, keepdim);
    if (result.count == 0)
        throw ShapeError(fmt::format("{}: the shape {} has no elements to choose from", op, x.to_string()));
    return result;
}

Array Reduced::like(Exec& exec, const Array& x, Dtype dtype) const {
    if (x.is_contiguous()) return exec.empty(shape, dtype);
    const Array all = exec.empty_like(kept, x.strides(), dtype);
    const View result = seen_as(all, shape);
    return {all.buffer, dtype, {shape, kernels::dense_strides(shape, result.strides)}};
}

View seen_as(const Array& array, const Shape& shape) {
    View view = array.view();
    view.shape = shape;
    view.strides = contiguous_strides(shape);
    int from = 0;
    for (int i = 0; i < shape.rank(); ++i) {
        if (shape[i] == 1) continue;
        while (array.shape()[from] == 1) ++from;
        view.strides[i] = array.strides()[from++];
    }
    return view;
}

View stretched(const char* op, const Array& dy, const Shape& x, const ReduceAttrs& attrs) {
    return seen_as(dy, reduced(op, x, attrs.axes, attrs.keepdim).kept);
}

WideResult::WideResult(Exec& exec, const Array& y, const Shape& kept)
    : y_(y),
      kept_(kept),
      wide_(is_half(y.dtype) ? exec.empty_like(y, compute_dtype(y.dtype), Category::workspace) : y) {}

void WideResult::round(Exec& exec) const {
    if (!is_half(y_.dtype)) return;
    exec.launch([&](auto& stream) { kernels::copy(stream, view(), seen_as(y_, kept_)); });
}

std::vector<Sample<ReduceAttrs>> reduction_samples(SampleInput (*input)(Shape), bool of_nothing) {
    std::vector<Sample<ReduceAttrs>> all{
        {"all", {}, {input({3, 5})}},
        {"last axis", {.axes = {-1}}, {input({3, 5})}},
        {"first axis, kept", {.axes = {0}, .keepdim = true}, {input({5, 3})}},
        {"outer axes", {.axes = {0, 2}}, {input({2, 3, 4})}},
        {"inner axes, kept", {.axes = {1, -1}, .keepdim = true}, {input({2, 3, 4})}},
        {"axis outside", {.axes = {2}}, {input({2, 3})}, "axis 2 is outside"},
        {"axis twice", {.axes = {1, -1}}, {input({2, 3})}, "named twice"},
        {"nothing", {}, {SampleInput::none()}, "undefined"},
        {"empty result", {.axes = {1}}, {input({0, 3})}},
    };
    if (of_nothing) {
        all.push_back({"of a scalar", {}, {input({})}});
        all.push_back({"of nothing", {.axes = {0}}, {input({0, 3})}});
    }
    return all;
}

}  // namespace ops

}  // namespace headroom
