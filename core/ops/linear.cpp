#include <headroom/core/ops/linear.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/run_matmul.hpp>

namespace headroom {

namespace ops {

OpResult<Linear::Saved, Array> Linear::forward(Exec& exec, const Attrs&, const Array& x, const Array& weight,
                                               const Array& bias) {
    check_one_dtype("linear", {{"x", x}, {"weight", weight}, {"bias", bias, kOptional}});
    check_form("linear", {"weight", weight}, weight.rank() == 2, "[out, in]");
    check_last_axis("linear", {"x", x}, weight.size(1), {"weight", weight});
    check_shape("linear", {"bias", bias}, {weight.size(0)}, {"weight", weight});
    Shape shape = x.shape();
    shape[shape.rank() - 1] = weight.size(0);
    Array y = exec.empty(shape, x.dtype);
    run_matmul(exec, {.a = as_matrix(x.view()),
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
        run_matmul(exec, {.a = dy_rows, .b = saved.weight.view(), .c = as_matrix(dx.view()), .beta = dx.beta});
    }
}

Operations Linear::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape>) {
    return Operations::of_product(2 * elements_of(inputs[0]) * static_cast<double>(inputs[1][0]));
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
        {"sizes",
         {},
         {I::normal({3, 4}), I::normal({5, 3}), I::none()},
         "linear: x [3, 4] must be [..., 3] to fit weight"},
        {"weight's rank", {}, {I::normal({3, 4}), I::normal({4}), I::none()}, "linear: weight [4] must be [out, in]"},
        {"bias", {}, {I::normal({3, 4}), I::normal({5, 4}), I::normal({4})}, "linear: bias [4] must be [5] to fit"},
        {"integers", {}, {I::index({3, 4}, 5), I::normal({5, 4}), I::none()}, "linear: x must be floating"},
    };
}

}  // namespace ops

Tensor linear(Tensor x, Tensor weight, Tensor bias) {
    return apply<ops::Linear>({}, std::move(x), std::move(weight), std::move(bias));
}

}  // namespace headroom
