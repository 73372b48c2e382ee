#include <headroom/core/ops/softmax.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/softmax/softmax.hpp>

namespace headroom {

namespace ops {

template <bool kLog>
OpResult<typename SoftmaxOf<kLog>::Saved, Array> SoftmaxOf<kLog>::forward(Exec& exec, const Attrs&, const Array& x) {
    check_floating(info.name, {{"x", x}});
    check_form(info.name, {"x", x}, x.rank() > 0, "[..., n]");
    Array y = exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) {
        if constexpr (kLog) {
            kernels::log_softmax(stream, x.view(), y.view());
        } else {
            kernels::softmax(stream, x.view(), y.view());
        }
    });
    return {{y}, y};
}

template <bool kLog>
void SoftmaxOf<kLog>::backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
    const View dy_view = dy.view();
    const auto dx = sink.destination(0, dy);
    if (!dx) return;
    exec.launch([&](auto& stream) {
        if constexpr (kLog) {
            kernels::log_softmax_backward(stream, saved.y.view(), dy_view, dx.view(), dx.beta);
        } else {
            kernels::softmax_backward(stream, saved.y.view(), dy_view, dx.view(), dx.beta);
        }
    });
}

template <bool kLog>
std::vector<Sample<typename SoftmaxOf<kLog>::Attrs>> SoftmaxOf<kLog>::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({3, 5})}},
        {"batches", {}, {I::normal({2, 3, 4})}},
        {"one row", {}, {I::normal({7})}},
        {"no rows", {}, {I::normal({0, 5})}},
        {"no elements", {}, {I::normal({3, 0})}},
        {"no axis", {}, {I::normal({})}, "softmax: x [] must be [..., n]"},
        {"integers", {}, {I::index({3, 5}, 4)}, "softmax: x must be floating"},
    };
}

template struct SoftmaxOf<false>;
template struct SoftmaxOf<true>;

namespace {

/// `Op` along any axis: the axis is brought to the end and back.
template <class Op>
Tensor along(Tensor x, int axis) {
    check_defined(Op::info.name, {{"x", x}});
    axis = check_axis_or_scalar(Op::info.name, x.shape(), axis);
    if (x.rank() == 0) return apply<Op>({}, x.reshape({1})).reshape({});
    if (axis == x.rank() - 1) return apply<Op>({}, std::move(x));
    return apply<Op>({}, x.transpose(axis, -1)).transpose(axis, -1);
}

}  // namespace

}  // namespace ops

Tensor softmax(Tensor x, int axis) { return ops::along<ops::Softmax>(std::move(x), axis); }

Tensor log_softmax(Tensor x, int axis) { return ops::along<ops::LogSoftmax>(std::move(x), axis); }

}  // namespace headroom
