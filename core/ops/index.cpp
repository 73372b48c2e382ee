#include <headroom/core/ops/index.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

using In = SampleInput;

/// The axis from the front, once x and the index are what they must be.
int checked_axis(const char* op, const Array& x, int axis, const Array& index) {
    check_defined(op, {{"x", x}});
    check_index(op, {"index", index});
    return check_axis(op, x.shape(), axis);
}

/// An index that goes along x, one element for each of the result's.
void check_along(const char* op, const Array& x, int axis, const Array& index) {
    bool fits = index.rank() == x.rank();
    for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || index.shape()[i] <= x.shape()[i];
    if (fits) return;
    throw ShapeError(fmt::format("{}: index {} must have as many axes as {} and may be larger only along axis {}", op,
                                 index.shape().to_string(), x.shape().to_string(), axis));
}

}  // namespace

OpResult<Gather::Saved, Array> Gather::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& index) {
    const int axis = checked_axis("gather", x, attrs.axis, index);
    check_along("gather", x, axis, index);
    Array y = exec.empty(index.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::gather(stream, x.view(), axis, index.view(), y.view()); });
    return {{index}, std::move(y)};
}

void Gather::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const int axis = dx.array.shape().axis(attrs.axis);
        exec.run<kernels::ScatterAddPlan>(axis, saved.index.view(), dy.view(), dx.view(), dx.beta);
    }
}

std::vector<Sample<IndexAttrs>> Gather::samples() {
    return {{"last axis", {-1}, {In::normal({3, 5}), In::index({3, 2}, 5)}},
            {"first axis, repeated", {0}, {In::normal({2, 4}), In::index({6, 4}, 2)}},
            {"smaller elsewhere", {1}, {In::normal({3, 4, 5}), In::index({2, 4, 3}, 4)}},
            {"one axis", {0}, {In::normal({5}), In::index({9}, 5)}},
            {"integers", {0}, {In::index({5}, 9), In::index({4}, 5)}},
            {"empty", {0}, {In::normal({5, 2}), In::index({0, 2}, 5)}},
            {"larger elsewhere", {0}, {In::normal({3, 2}), In::index({3, 4}, 3)}, "larger only along axis 0"},
            {"other rank", {0}, {In::normal({3, 2}), In::index({3}, 3)}, "as many axes"},
            {"index outside", {0}, {In::normal({0, 2}), In::index({3, 2}, 4)}, "gather: index"},
            {"floating index", {0}, {In::normal({3}), In::normal({3})}, "must be i32 or i64"},
            {"axis outside", {2}, {In::normal({3, 2}), In::index({3, 2}, 3)}, "axis 2 is outside"}};
}

OpResult<ScatterAdd::Saved, Array> ScatterAdd::forward(Exec& exec, const Attrs& attrs, const Array& x,
                                                       const Array& index, const Array& source) {
    const int axis = checked_axis("scatter_add", x, attrs.axis, index);
    check_floating("scatter_add", {{"x", x}, {"source", source}});
    check_along("scatter_add", x, axis, index);
    check_same_shape("scatter_add", {"source", source}, {"index", index});
    Array y = exec.fresh_output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    exec.run<kernels::ScatterAddPlan>(axis, index.view(), source.view(), y.view(), 1.0f);
    return {{index}, std::move(y)};
}

void ScatterAdd::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    const int axis = dy.shape().axis(attrs.axis);
    if (const auto dsource = sink.destination(2)) {
        const Array picked = exec.empty(saved.index.shape(), dy.dtype, Category::workspace);
        exec.launch([&](auto& stream) {
            kernels::gather(stream, dy.view(), axis, saved.index.view(), picked.view());
            kernels::accumulate(stream, picked.view(), dsource.view(), 1.0f, dsource.beta);
        });
    }
    sink.give(0, std::move(dy));
}

std::vector<Sample<IndexAttrs>> ScatterAdd::samples() {
    return {
        {"one axis, repeated", {0}, {In::normal({5}), In::index({9}, 5), In::normal({9})}},
        {"last axis", {-1}, {In::normal({3, 5}), In::index({3, 2}, 5), In::normal({3, 2})}},
        {"smaller elsewhere", {0}, {In::normal({3, 4}), In::index({6, 2}, 3), In::normal({6, 2})}},
        {"empty", {0}, {In::normal({5}), In::index({0}, 5), In::normal({0})}},
        {"shapes differ", {0}, {In::normal({5}), In::index({4}, 5), In::normal({3})}, "the shape of index"},
        {"index outside", {0}, {In::normal({0, 2}), In::index({3, 2}, 4), In::normal({3, 2})}, "scatter_add: index"},
        {"integers", {0}, {In::index({5}, 9), In::index({4}, 5), In::index({4}, 9)}, "must be floating"}};
}

OpResult<IndexSelect::Saved, Array> IndexSelect::forward(Exec& exec, const Attrs& attrs, const Array& x,
                                                         const Array& index) {
    const int axis = checked_axis("index_select", x, attrs.axis, index);
    check_form("index_select", {"index", index}, index.rank() == 1, "[n]");
    Shape shape = x.shape();
    shape[axis] = index.shape()[0];
    Array y = exec.empty_like(shape, kernels::dense_strides(x.shape(), x.strides()), x.dtype);
    exec.launch([&](auto& stream) { kernels::index_select(stream, x.view(), axis, index.view(), y.view()); });
    return {{index}, std::move(y)};
}

void IndexSelect::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const int axis = dx.array.shape().axis(attrs.axis);
        exec.run<kernels::IndexSelectGradientPlan>(axis, saved.index.view(), dy.view(), dx.view(), dx.beta);
    }
}

std::vector<Sample<IndexAttrs>> IndexSelect::samples() {
    return {{"rows, repeated", {0}, {In::normal({3, 4}), In::index({5}, 3)}},
            {"columns", {-1}, {In::normal({3, 4}), In::index({3}, 4)}},
            {"a middle axis", {1}, {In::normal({2, 3, 4}), In::index({4}, 3)}},
            {"integers", {0}, {In::index({5, 2}, 9), In::index({4}, 5)}},
            {"empty", {0}, {In::normal({5, 2}), In::index({0}, 5)}},
            {"index outside", {0}, {In::normal({0, 2}), In::index({3}, 4)}, "index_select: index"},
            {"two axes", {0}, {In::normal({5}), In::index({3, 1}, 4)}, "index [3, 1] must be [n]"}};
}

}  // namespace ops

Tensor gather(Tensor x, int axis, Tensor index) { return apply<ops::Gather>({axis}, std::move(x), std::move(index)); }

Tensor scatter_add(Tensor x, int axis, Tensor index, Tensor source) {
    return apply<ops::ScatterAdd>({axis}, std::move(x), std::move(index), std::move(source));
}

Tensor index_select(Tensor x, int axis, Tensor index) {
    return apply<ops::IndexSelect>({axis}, std::move(x), std::move(index));
}

}  // namespace headroom
