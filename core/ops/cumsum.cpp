#include <headroom/core/ops/cumsum.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/scan/scan.hpp>

namespace headroom {

namespace ops {

OpResult<Cumsum::Saved, Array> Cumsum::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_defined("cumsum", {{"x", x}});
    const int axis = check_axis("cumsum", x.shape(), attrs.axis);
    Array y = exec.fresh_output(x.shape(), is_floating(x.dtype) ? x.dtype : Dtype::i64);
    exec.run<kernels::CumsumPlan>(x.view(), axis, false, y.view(), 0.0f);
    return {{}, std::move(y)};
}

void Cumsum::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        const int axis = dy.shape().axis(attrs.axis);
        exec.run<kernels::CumsumPlan>(dy.view(), axis, true, dx.view(), dx.beta);
    }
}

std::vector<Sample<Cumsum::Attrs>> Cumsum::samples() {
    using In = SampleInput;
    return {{"last axis", {}, {In::normal({3, 5})}},
            {"first axis", {0}, {In::normal({7, 3})}},
            {"a middle axis", {1}, {In::normal({2, 5, 4})}},
            {"integers", {0}, {In::index({9}, 4)}},
            {"truth values", {}, {In::boolean({2, 7})}},
            {"empty", {1}, {In::normal({0, 3})}},
            {"of nothing", {}, {In::normal({3, 0})}},
            {"axis outside", {2}, {In::normal({2, 3})}, "axis 2 is outside"},
            {"no axis", {}, {In::normal({})}, "axis -1 is outside"},
            {"nothing", {}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor cumsum(Tensor x, int axis) { return apply<ops::Cumsum>({axis}, std::move(x)); }

}  // namespace headroom
