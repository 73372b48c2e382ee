#include <headroom/core/ops/linear.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/products.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check(const Array& x, const Array& weight, const Array& bias) {
    if (!is_floating(x.dtype) || x.dtype != weight.dtype || (bias.defined() && bias.dtype != x.dtype)) {
        throw DtypeError(fmt::format("linear: x, weight and bias must be floating, got {}, {} and {}; use cast()",
                                     name(x.dtype), name(weight.dtype), name(bias.dtype)));
    }
    if (weight.rank() != 2) {
        throw ShapeError(fmt::format("linear: weight must be [out, in], got {}", weight.shape().text()));
    }
    if (x.rank() == 0 || x.size(-1) != weight.size(1)) {
        throw ShapeError(fmt::format("linear: the last axis of x {} does not match weight {}, which is [out, in]",
                                     x.shape().text(), weight.shape().text()));
    }
    if (bias.defined() && (bias.rank() != 1 || bias.size(0) != weight.size(0))) {
        throw ShapeError(fmt::format("linear: bias {} does not match weight {}; it must be [{}]", bias.shape().text(),
                                     weight.shape().text(), weight.size(0)));
    }
}

}  // namespace

Result<Linear::Saved, Array> Linear::forward(Exec& exec, const Attrs&, const Array& x, const Array& weight,
                                             const Array& bias) {
    check(x, weight, bias);
    Shape shape = x.shape();
    shape[shape.rank() - 1] = weight.size(0);
    Array y = exec.empty(shape, x.dtype);
    product(exec, {.a = as_matrix(x.view()),
                   .b = kernels::transposed(weight.view()),
                   .c = as_matrix(y.view()),
                   .bias = bias.defined() ? bias.view() : View{}});
    return {{x, weight}, std::move(y)};
}

// x's gradient comes last: it has x's shape, and takes over x's storage where nothing else needs that.
void Linear::backward(Exec& exec, const Attrs&, Saved& saved, Array dy, GradSink sink) {
    const View dy_rows = as_matrix(dy.view());
    {
        JointTargets targets(exec, sink);
        const JointTarget &dweight = targets.ask(1), &dbias = targets.ask(2);
        affine_gradients(exec, dy_rows, as_matrix(saved.x.view()), dweight, dbias);
    }
    if (const auto dx = sink.destination(0, saved.x)) {
        product(exec, {.a = dy_rows, .b = saved.weight.view(), .c = as_matrix(dx.view()), .beta = dx.beta});
    }
}

std::vector<Sample<Linear::Attrs>> Linear::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({3, 4}), I::normal({5, 4}), I::normal({5})}},
        {"no bias", {}, {I::normal({3, 4}), I::normal({5, 4}), I::none()}},
        {"batches", {}, {I::normal({2, 3, 2}), I::normal({3, 2}), I::normal({3})}},
        {"vector", {}, {I::normal({4}), I::normal({2, 4}), I::normal({2})}},
        {"no rows", {}, {I::normal({0, 4}), I::normal({5, 4}), I::normal({5})}},
        {"no features", {}, {I::normal({3, 0}), I::normal({2, 0}), I::normal({2})}},
        {"sizes", {}, {I::normal({3, 4}), I::normal({5, 3}), I::none()}, "linear: the last axis of x [3, 4]"},
        {"weight's rank", {}, {I::normal({3, 4}), I::normal({4}), I::none()}, "linear: weight must be [out, in]"},
        {"bias", {}, {I::normal({3, 4}), I::normal({5, 4}), I::normal({4})}, "linear: bias [4]"},
        {"integers", {}, {I::index({3, 4}, 5), I::normal({5, 4}), I::none()}, "linear: x, weight and bias"},
    };
}

}  // namespace ops

Tensor linear(Tensor x, Tensor weight, Tensor bias) {
    return apply<ops::Linear>({}, std::move(x), std::move(weight), std::move(bias));
}

}  // namespace headroom
