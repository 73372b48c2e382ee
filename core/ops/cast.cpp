#include <headroom/core/ops/cast.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>

namespace headroom {

namespace ops {

OpResult<Cast::Saved, Array> Cast::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("cast", {{"x", x}});
    Array y = exec.fresh_output(x.shape(), attrs.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Cast::backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }

std::vector<Sample<Cast::Attrs>> Cast::samples() {
    return {{"to f64", {Dtype::f64}, {SampleInput::normal({3, 4})}},
            {"empty", {Dtype::f64}, {SampleInput::normal({0, 4})}}};
}

}  // namespace ops

Tensor cast(Tensor x, Dtype dtype) {
    if (x.defined() && x.dtype() == dtype) return x;
    return apply<ops::Cast>({dtype}, std::move(x));
}

}  // namespace headroom
