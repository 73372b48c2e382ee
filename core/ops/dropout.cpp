#include <headroom/core/ops/dropout.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/draw_guard.hpp>
#include <headroom/kernels/dropout/dropout.hpp>

namespace headroom {

namespace ops {

OpResult<Dropout::Saved, Array> Dropout::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("dropout", {{"x", x}});
    check_range("dropout", "p", attrs.p, 0, 1);
    Array y = exec.output(x.shape(), x.dtype);
    exec.launch([&](auto& stream) { kernels::dropout(stream, attrs.key, attrs.p, x.view(), y.view()); });
    return {{}, std::move(y)};
}

void Dropout::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0, dy)) {
        exec.launch([&](auto& stream) {
            kernels::dropout_backward(stream, attrs.key, attrs.p, dy.view(), dx.beta, dx.view());
        });
    }
}

std::vector<Sample<Dropout::Attrs>> Dropout::samples() {
    const kernels::RandomKey key = kernels::op_key(11, 5);
    return {{"matrix", {0.3f, key}, {SampleInput::normal({5, 7})}},
            {"nothing kept", {1.0f, key}, {SampleInput::normal({4})}},
            {"everything kept", {0.0f, key}, {SampleInput::normal({4})}},
            {"empty", {0.5f, key}, {SampleInput::normal({0, 2})}},
            {"no probability", {1.5f, key}, {SampleInput::normal({4})}, "must be in [0, 1]"},
            {"integers", {0.5f, key}, {SampleInput::index({4}, 3)}, "must be floating"}};
}

OpResult<DropoutAdd::Saved, Array> DropoutAdd::forward(Exec& exec, const Attrs& attrs, const Array& branch,
                                                       const Array& x) {
    check_floating("dropout_add", {{"branch", branch}, {"x", x}});
    check_range("dropout_add", "p", attrs.p, 0, 1);
    check_same_shape("dropout_add", {"branch", branch}, {"x", x});
    Array y = exec.output(x.shape(), promoted(branch.dtype, x.dtype));
    exec.launch(
        [&](auto& stream) { kernels::dropout_add(stream, attrs.key, attrs.p, branch.view(), x.view(), y.view()); });
    return {{}, std::move(y)};
}

void DropoutAdd::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    sink.give(1, dy);
    if (const auto target = sink.destination(0, dy)) {
        exec.launch([&](auto& stream) {
            kernels::dropout_backward(stream, attrs.key, attrs.p, dy.view(), target.beta, target.view());
        });
    }
}

std::vector<Sample<DropoutAdd::Attrs>> DropoutAdd::samples() {
    const kernels::RandomKey key = kernels::op_key(13, 2);
    const auto two = [](Shape shape) { return std::vector{SampleInput::normal(shape), SampleInput::normal(shape)}; };
    return {
        {"matrix", {0.3f, key}, two({5, 7})},
        {"nothing kept", {1.0f, key}, two({4})},
        {"everything kept", {0.0f, key}, two({4})},
        {"empty", {0.5f, key}, two({0, 2})},
        {"no probability", {-0.5f, key}, two({4}), "must be in [0, 1]"},
        {"different shapes", {0.5f, key}, {SampleInput::normal({2, 4}), SampleInput::normal({4})}, "the shape of x"},
        {"integers", {0.5f, key}, {SampleInput::normal({4}), SampleInput::index({4}, 3)}, "must be floating"},
        {"no branch", {0.5f, key}, {SampleInput::none(), SampleInput::normal({4})}, "undefined"}};
}

}  // namespace ops

Tensor dropout(Tensor x, double p, bool training) {
    check_defined("dropout", {{"x", x}});
    if (!training || p == 0.0) return x;
    check_range("dropout", "p", p, 0, 1);
    const ops::DrawGuard guard(x.context());
    const kernels::RandomKey key = x.context().next_random();
    return apply<ops::Dropout>({static_cast<float>(p), key}, std::move(x));
}

Tensor dropout_add(Tensor branch, Tensor x, double p, bool training) {
    check_same_shape("dropout_add", {"branch", branch}, {"x", x});
    check_defined("dropout_add", {{"branch", branch}, {"x", x}});
    if (!training || p == 0.0) return as_op("dropout_add", [&] { return add(std::move(branch), std::move(x)); });
    check_range("dropout_add", "p", p, 0, 1);
    const ops::DrawGuard guard(x.context());
    const kernels::RandomKey key = x.context().next_random();
    return apply<ops::DropoutAdd>({static_cast<float>(p), key}, std::move(branch), std::move(x));
}

}  // namespace headroom
