#include <headroom/core/ops/dropout.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/dropout/dropout.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check_probability(double p) {
    if (!(p >= 0.0 && p <= 1.0)) throw Error(fmt::format("dropout: the probability must be in [0, 1], got {}", p));
}

}  // namespace

Result<Dropout::Saved, Array> Dropout::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_floating("dropout", x);
    check_probability(attrs.p);
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
            {"integers", {0.5f, key}, {SampleInput::index({4}, 3)}, "dtype must be floating"}};
}

}  // namespace ops

Tensor dropout(Tensor x, double p, bool training) {
    if (!training || p == 0.0 || !x.defined()) return x;
    ops::check_probability(p);  // before a random number is spent
    const kernels::RandomKey key = x.context().next_random();
    return apply<ops::Dropout>({static_cast<float>(p), key}, std::move(x));
}

}  // namespace headroom
