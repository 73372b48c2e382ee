#include <headroom/core/ops/losses.hpp>

#include <fmt/format.h>

#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check(const char* op, const Array& x, const Array& target) {
    if (!x.defined() || !target.defined()) throw Error(fmt::format("{}: needs x and a target, one is undefined", op));
    if (!is_floating(x.dtype)) throw DtypeError(fmt::format("{}: x must be floating, got {}", op, name(x.dtype)));
    if (x.shape() != target.shape()) {
        throw ShapeError(fmt::format("{}: x {} and target {} must have one shape; nothing is broadcast", op,
                                     x.shape().text(), target.shape().text()));
    }
}

}  // namespace

template <class F>
Result<typename ElementLoss<F>::Saved, Array> ElementLoss<F>::forward(Exec& exec, const Attrs&, const Array& x,
                                                                      const Array& target) {
    check(F::name, x, target);
    const bool wide = x.dtype == Dtype::f64 || target.dtype == Dtype::f64;
    const Dtype compute = wide ? Dtype::f64 : Dtype::f32;
    Array loss = exec.empty({}, compute);
    const Array terms = exec.empty(x.shape(), compute, Category::workspace);
    const Scratch scratch = exec.scratch(kernels::reduce_scratch(exec.stream(), terms.view(), loss.view()));
    exec.launch([&](auto& stream) {
        kernels::map(stream, F{}, x.view(), target.view(), terms.view());
        kernels::sum(stream, terms.view(), 1.0, loss.view(), 0.0f, scratch.data());
    });
    return {{x, target}, std::move(loss)};
}

template <class F>
void ElementLoss<F>::backward(Exec& exec, const Attrs&, const Saved& saved, Array dloss, GradSink sink) {
    const View x = saved.x.view(), target = saved.target.view();
    if (const auto dx = sink.destination(0)) {
        exec.launch(
            [&](auto& stream) { kernels::map_backward_a(stream, F{}, x, target, dloss.view(), dx.beta, dx.view()); });
    }
    if (const auto dtarget = sink.destination(1)) {
        exec.launch([&](auto& stream) {
            kernels::map_backward_b(stream, F{}, x, target, dloss.view(), dtarget.beta, dtarget.view());
        });
    }
}

template <class F>
std::vector<Sample<typename ElementLoss<F>::Attrs>> ElementLoss<F>::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({3, 4}), I::unit({3, 4})}},
        {"boolean targets", {}, {I::normal({3, 4}), I::boolean({3, 4})}},
        {"integer targets", {}, {I::normal({7}), I::index({7}, 2)}},
        {"one element", {}, {I::normal({}), I::unit({})}},
        {"no elements", {}, {I::normal({0, 3}), I::unit({0, 3})}},
        {"shapes", {}, {I::normal({3, 4}), I::unit({4})}, "must have one shape"},
        {"integers", {}, {I::index({3}, 4), I::unit({3})}, "x must be floating"},
    };
}

template struct ElementLoss<kernels::SquaredDifference>;
template struct ElementLoss<kernels::LogisticLoss>;

}  // namespace ops

Tensor mse(Tensor x, Tensor target) { return apply<ops::MeanSquaredError>({}, std::move(x), std::move(target)); }

Tensor binary_cross_entropy_with_logits(Tensor x, Tensor target) {
    return apply<ops::BinaryCrossEntropy>({}, std::move(x), std::move(target));
}

}  // namespace headroom
