#include <headroom/core/ops/cat.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

Shape joined(std::span<const Array> inputs, int wanted) {
    if (inputs.empty()) throw Error("cat: got no tensors");
    for (const Array& input : inputs) check_defined("cat", {{"an input", input}});
    Shape shape = inputs[0].shape();
    const int axis = check_axis("cat", shape, wanted);
    for (const Array& input : inputs.subspan(1)) {
        bool fits = input.rank() == shape.rank();
        for (int i = 0; fits && i < shape.rank(); ++i) fits = i == axis || input.shape()[i] == shape[i];
        if (!fits) {
            throw ShapeError(fmt::format("cat: {} and {} may differ only in axis {}", inputs[0].shape().to_string(),
                                         input.shape().to_string(), axis));
        }
        if (input.dtype != inputs[0].dtype) {
            throw DtypeError(
                fmt::format("cat: dtypes {} and {} differ; use cast()", name(inputs[0].dtype), name(input.dtype)));
        }
        shape[axis] += input.shape()[axis];
    }
    return shape;
}

/// The strides after which the result's axes are arranged: of the first input without gaps, rather one of those with
/// more than one element along every axis, since others may have several orders.
Strides deciding(std::span<const Array> inputs, const Shape& shape) {
    const auto merit = [&](const Array& input) {
        if (input.numel() == 0 || !is_dense(input.shape(), input.strides())) return 0;
        for (int i = 0; i < shape.rank(); ++i) {
            if (input.shape()[i] == 1 && shape[i] != 1) return 1;
        }
        return 2;
    };
    const Array& best = *std::max_element(inputs.begin(), inputs.end(),
                                          [&](const Array& a, const Array& b) { return merit(a) < merit(b); });
    return kernels::dense_strides(best.shape(), best.strides());
}

/// Elements [start, start + size) of an axis.
View part(const Array& whole, int axis, std::int64_t start, std::int64_t size) {
    View view = whole.view();
    if (view.data) view.data = view.at(start * view.strides[axis]);
    view.shape[axis] = size;
    return view;
}

}  // namespace

OpResult<Cat::Saved, Array> Cat::forward(Exec& exec, const Attrs& attrs, std::span<const Array> inputs) {
    const Shape shape = joined(inputs, attrs.axis);
    const int axis = shape.axis(attrs.axis);
    Array y = exec.empty_like(shape, deciding(inputs, shape), inputs[0].dtype);
    exec.launch([&](auto& stream) {
        std::int64_t start = 0;
        for (const Array& input : inputs) {
            kernels::copy(stream, input.view(), part(y, axis, start, input.shape()[axis]));
            start += input.shape()[axis];
        }
    });
    return {{}, std::move(y)};
}

void Cat::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    const int axis = dy.shape().axis(attrs.axis);
    std::int64_t start = 0;
    for (int i = 0; i < sink.inputs(); ++i) {
        const std::int64_t size = sink.shape(i)[axis];
        if (const auto target = sink.destination(i)) {
            exec.launch([&](auto& stream) {
                kernels::accumulate(stream, part(dy, axis, start, size), target.view(), 1.0f, target.beta);
            });
        }
        start += size;
    }
}

std::vector<Sample<Cat::Attrs>> Cat::samples() {
    using In = SampleInput;
    return {{"rows", {0}, {In::normal({2, 3}), In::normal({1, 3}), In::normal({3, 3})}},
            {"columns", {-1}, {In::normal({3, 2}), In::normal({3, 4})}},
            {"a middle axis", {1}, {In::normal({2, 1, 3}), In::normal({2, 3, 3})}},
            {"one", {0}, {In::normal({4})}},
            {"one of them empty", {0}, {In::normal({2, 3}), In::normal({0, 3}), In::normal({1, 3})}},
            {"all empty", {1}, {In::normal({0, 3}), In::normal({0, 2})}},
            {"the last one empty", {0}, {In::normal({2, 3}), In::normal({0, 3})}},
            {"integers", {0}, {In::index({3}, 9), In::index({2}, 9)}},
            {"other axes differ", {0}, {In::normal({2, 3}), In::normal({2, 4})}, "may differ only in axis 0"},
            {"ranks differ", {0}, {In::normal({2, 3}), In::normal({3})}, "may differ only in axis 0"},
            {"dtypes differ", {0}, {In::normal({2}), In::index({2}, 9)}, "differ; use cast()"},
            {"axis outside", {2}, {In::normal({2, 3})}, "axis 2 is outside"}};
}

}  // namespace ops

Tensor cat(std::vector<Tensor> tensors, int axis) { return apply<ops::Cat>({axis}, std::move(tensors)); }

Tensor stack(std::vector<Tensor> tensors, int axis) {
    if (tensors.empty()) throw Error("stack: got no tensors");
    for (const Tensor& tensor : tensors) {
        check_defined("stack", {{"an input", tensor}});
        check_same_shape("stack", {"an input", tensor}, {"the first", tensors[0]});
    }
    return as_op("stack", [&] {
        for (Tensor& tensor : tensors) tensor = tensor.unsqueeze(axis);
        return cat(std::move(tensors), axis);
    });
}

}  // namespace headroom
