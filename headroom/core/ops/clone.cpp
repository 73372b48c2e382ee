#include <headroom/core/ops/clone.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>

namespace headroom {

namespace ops {

Result<Clone::Saved, Array> Clone::forward(Exec& exec, const Attrs&, const Array& x) {
    check_defined("clone", {{"x", x}});
    Array y = exec.empty(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Clone::backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }

std::vector<Sample<Clone::Attrs>> Clone::samples() {
    return {{"matrix", {}, {SampleInput::normal({3, 4})}}, {"empty", {}, {SampleInput::normal({2, 0})}}};
}

}  // namespace ops

Tensor clone(Tensor x) { return apply<ops::Clone>({}, std::move(x)); }

}  // namespace headroom
