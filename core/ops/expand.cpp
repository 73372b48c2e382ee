#include <headroom/core/ops/expand.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

bool stretches(const Shape& from, const Shape& to) {
    if (from.rank() > to.rank()) return false;
    const int missing = to.rank() - from.rank();
    for (int i = 0; i < to.rank(); ++i) {
        if (to[i] < 0 || (i >= missing && from[i - missing] != to[i] && from[i - missing] != 1)) return false;
    }
    return true;
}

}  // namespace

OpResult<Expand::Saved, Array> Expand::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("expand", {{"x", x}});
    if (!stretches(x.shape(), attrs.shape)) {
        throw ShapeError(
            fmt::format("expand: {} can't be expanded to {}", x.shape().to_string(), attrs.shape.to_string()));
    }
    const bool same_rank = x.rank() == attrs.shape.rank();
    const Strides like = same_rank ? kernels::dense_strides(x.shape(), x.strides()) : contiguous_strides(attrs.shape);
    Array y = exec.empty_like(attrs.shape, like, x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Expand::backward(Exec& exec, const Attrs&, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        exec.run<kernels::SumPlan>(dy.view(), 1.0, dx.view(), dx.beta);
    }
}

std::vector<Sample<Expand::Attrs>> Expand::samples() {
    using In = SampleInput;
    return {{"rows", {{4, 3}}, {In::normal({3})}},
            {"columns", {{4, 3}}, {In::normal({4, 1})}},
            {"several axes", {{2, 3, 4, 2}}, {In::normal({3, 1, 2})}},
            {"a scalar", {{2, 3}}, {In::normal({})}},
            {"integers", {{2, 3}}, {In::index({3}, 9)}},
            {"to nothing", {{0, 3}}, {In::normal({1, 3})}},
            {"shapes that do not fit", {{2, 4}}, {In::normal({3})}, "can't be expanded"},
            {"fewer axes", {{3}}, {In::normal({1, 3})}, "can't be expanded"}};
}

}  // namespace ops

Tensor expand(Tensor x, const Shape& shape) {
    if (x.defined() && x.shape() == shape) return x;
    return apply<ops::Expand>({shape}, std::move(x));
}

}  // namespace headroom
