#include <headroom/core/ops/cast.hpp>

#include <headroom/kernels/copy/copy.hpp>

namespace headroom {

Result<CastOp::Saved, Array> CastOp::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    Array y = exec.empty(x.shape(), attrs.dtype);
    exec.launch([&](auto& stream) { kernels::copy(stream, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void CastOp::backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }

std::vector<Sample<CastOp::Attrs>> CastOp::samples() {
    return {{"to f64", {Dtype::f64}, {SampleInput::normal({3, 4})}},
            {"empty", {Dtype::f64}, {SampleInput::normal({0, 4})}}};
}

Tensor cast(Tensor x, Dtype dtype) {
    if (x.dtype() == dtype) return x;
    return apply<CastOp>({dtype}, std::move(x));
}

}  // namespace headroom
