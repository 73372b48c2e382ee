#include <headroom/core/ops/arrange.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/internal/reduced.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

/// The same elements with negative strides along `axes`, counted from the last one.
View reversed(View x, const Axes& axes) {
    const unsigned mask = axes_mask("flip", x.shape, axes);
    for (int i = 0; i < x.rank(); ++i) {
        if (!(mask >> i & 1u) || x.numel() == 0) continue;
        if (x.data) x.data = x.at((x.shape[i] - 1) * x.strides[i]);
        x.strides[i] = -x.strides[i];
    }
    return x;
}

}  // namespace

OpResult<Flip::Saved, Array> Flip::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("flip", {{"x", x}});
    const View from = reversed(x.view(), attrs.axes);
    Array y = exec.fresh_output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, from, y.view()); });
    return {{}, std::move(y)};
}

void Flip::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const View from = reversed(dy.view(), attrs.axes);
        exec.launch([&](auto& stream) { kernels::accumulate(stream, from, dx.view(), 1.0f, dx.beta); });
    }
}

std::vector<Sample<Flip::Attrs>> Flip::samples() {
    using In = SampleInput;
    return {{"last axis", {{-1}}, {In::normal({3, 5})}},
            {"first axis", {{0}}, {In::normal({4, 3})}},
            {"two axes", {{0, 2}}, {In::normal({2, 3, 4})}},
            {"no axis", {{}}, {In::normal({3})}},
            {"integers", {{0}}, {In::index({5}, 9)}},
            {"empty", {{1}}, {In::normal({2, 0})}},
            {"axis outside", {{2}}, {In::normal({2, 3})}, "axis 2 is outside"},
            {"axis twice", {{1, -1}}, {In::normal({2, 3})}, "named twice"},
            {"nothing", {{0}}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor flip(Tensor x, const Axes& axes) { return apply<ops::Flip>({axes}, std::move(x)); }

Tensor roll(Tensor x, std::int64_t shift, int axis) {
    check_defined("roll", {{"x", x}});
    axis = check_axis("roll", x.shape(), axis);
    const std::int64_t size = x.size(axis);
    const std::int64_t first = size == 0 ? 0 : (size - shift % size) % size;  // what comes first
    if (first == 0) return x;
    return as_op("roll", [&] { return cat({x.slice(axis, first, size), x.slice(axis, 0, first)}, axis); });
}

Tensor repeat(Tensor x, const Shape& times) {
    check_defined("repeat", {{"x", x}});
    if (times.rank() < x.rank() || std::any_of(times.begin(), times.end(), [](std::int64_t n) { return n < 0; })) {
        throw ShapeError(fmt::format("repeat: {} must give a count of at least 0 for each axis of {}",
                                     times.to_string(), x.shape().to_string()));
    }
    while (x.rank() < times.rank()) x = x.unsqueeze(0);
    Shape whole = x.shape();
    for (int i = 0; i < times.rank(); ++i) {
        if (!__builtin_mul_overflow(whole[i], times[i], &whole[i]) && bytes_of(whole, x.dtype())) continue;
        throw ShapeError(
            fmt::format("repeat: {} times {} has too many elements", times.to_string(), x.shape().to_string()));
    }
    return as_op("repeat", [&] {
        for (int axis = times.rank() - 1; axis >= 0; --axis) {
            if (times[axis] == 1) continue;
            Shape shape = x.shape();
            std::int64_t before = 1, after = 1;
            for (int i = 0; i < x.rank(); ++i) (i < axis ? before : after) *= shape[i];
            x = expand(x.reshape({before, 1, after}), {before, times[axis], after});
            shape[axis] = whole[axis];
            x = x.reshape(shape);
        }
        return x;
    });
}

}  // namespace headroom
