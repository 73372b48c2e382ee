#include <headroom/core/ops/clone.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

OpResult<Clone::Saved, Array> Clone::forward(Exec& exec, const Attrs&, const Array& x) {
    check_defined("clone", {{"x", x}});
    Array y = exec.fresh_output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Clone::backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }

std::vector<Sample<Clone::Attrs>> Clone::samples() {
    return {{"matrix", {}, {SampleInput::normal({3, 4})}}, {"empty", {}, {SampleInput::normal({2, 0})}}};
}

OpResult<Contiguous::Saved, Array> Contiguous::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("contiguous", {{"x", x}});
    if (attrs.format == MemoryFormat::channels_last && x.rank() < 3) {
        throw ShapeError(fmt::format("contiguous: x {} must be [N, C, ...] for channels_last, of three axes or more",
                                     x.shape().to_string()));
    }
    Array y = exec.empty_like(x.shape(), kernels::dense_strides(x.shape(), attrs.format), x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Contiguous::backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }

std::vector<Sample<Contiguous::Attrs>> Contiguous::samples() {
    using In = SampleInput;
    constexpr auto channels_last = MemoryFormat::channels_last;
    return {{"rows", {}, {In::normal({3, 4})}},
            {"images", {channels_last}, {In::normal({2, 3, 4, 5})}},
            {"sequences", {channels_last}, {In::normal({2, 3, 5})}},
            {"one channel", {channels_last}, {In::normal({2, 1, 3, 2})}},
            {"integers", {channels_last}, {In::index({2, 3, 4}, 9)}},
            {"empty", {channels_last}, {In::normal({2, 0, 3, 4})}},
            {"no image", {channels_last}, {In::normal({3, 4})}, "x [3, 4] must be [N, C, ...]"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor clone(Tensor x) { return apply<ops::Clone>({}, std::move(x)); }

Tensor contiguous(Tensor x, MemoryFormat format) {
    if (x.defined() && x.is_contiguous(format)) return x;
    return apply<ops::Contiguous>({format}, std::move(x));
}

}  // namespace headroom
