#include <headroom/core/ops/losses.hpp>

#include <cmath>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

template <class F>
OpResult<typename ElementLoss<F>::Saved, Array> ElementLoss<F>::forward(Exec& exec, const Attrs& f, const Array& x,
                                                                        const Array& target) {
    check_floating(F::name, {{"x", x}});
    check_defined(F::name, {{"target", target}});
    check_same_shape(F::name, {"target", target}, {"x", x});
    const Dtype compute = compute_dtype(promoted(x.dtype, target.dtype));
    Array loss = exec.empty({}, compute);
    const Array terms = exec.fresh_output(x.shape(), compute, Category::workspace);
    exec.launch([&](auto& stream) { kernels::map(stream, f, x.view(), target.view(), terms.view()); });
    exec.run<kernels::SumPlan>(terms.view(), 1.0, loss.view(), 0.0f);
    return {{x, target}, std::move(loss)};
}

template <class F>
void ElementLoss<F>::backward(Exec& exec, const Attrs& f, const Saved& saved, Array dloss, GradSink sink) {
    const View x = saved.x.view(), target = saved.target.view();
    if (const auto dx = sink.destination(0)) {
        exec.launch(
            [&](auto& stream) { kernels::map_backward_a(stream, f, x, target, dloss.view(), dx.beta, dx.view()); });
    }
    if (const auto dtarget = sink.destination(1)) {
        exec.launch([&](auto& stream) {
            kernels::map_backward_b(stream, f, x, target, dloss.view(), dtarget.beta, dtarget.view());
        });
    }
}

namespace {

std::vector<Sample<NoAttrs>> samples_of_losses(const kernels::Domain& domain) {
    using I = SampleInput;
    const auto x = [&](Shape shape) { return I::in(domain, shape); };
    const auto target = [&](Shape shape) { return domain.kinked ? I::distinct(shape) : I::unit(shape); };
    return {
        {"rows", {}, {x({3, 4}), target({3, 4})}},
        {"boolean targets", {}, {x({3, 4}), I::boolean({3, 4})}},
        {"integer targets", {}, {x({7}), I::index({7}, 2)}},
        {"one element", {}, {x({}), target({})}},
        {"no elements", {}, {x({0, 3}), target({0, 3})}},
        {"shapes", {}, {x({3, 4}), target({4})}, "target [4] must have the shape of x, [3, 4]"},
        {"integers", {}, {I::index({3}, 4), I::unit({3})}, "x must be floating"},
    };
}

}  // namespace

template <class F>
std::vector<Sample<typename ElementLoss<F>::Attrs>> ElementLoss<F>::samples() {
    return with_attrs(kernels::sample_of<F>(), samples_of_losses(kernels::domain_of<F>()));
}

void add_element_losses(std::vector<OpEntry>& all) { add_entries<ElementLoss>(all, kernels::LossFunctions{}); }

}  // namespace ops

namespace {

template <class F>
Loss of_elements(const F& f, Tensor x, Tensor target) {
    check_defined(F::name, {{"x", x}, {"target", target}});
    const auto terms = static_cast<double>(x.numel());
    return {apply<ops::ElementLoss<F>>(f, std::move(x), std::move(target)), terms};
}

}  // namespace

Loss mse_loss(Tensor x, Tensor target) {
    return of_elements(kernels::SquaredDifference{}, std::move(x), std::move(target));
}

Loss l1_loss(Tensor x, Tensor target) {
    return of_elements(kernels::AbsoluteDifference{}, std::move(x), std::move(target));
}

Loss smooth_l1_loss(Tensor x, Tensor target, double beta) {
    if (!(beta > 0 && std::isfinite(beta))) {
        throw Error(fmt::format("smooth_l1_loss: beta must be above 0 and finite, got {}", beta));
    }
    return of_elements(kernels::SmoothAbsoluteDifference{beta}, std::move(x), std::move(target));
}

Loss binary_cross_entropy_with_logits(Tensor x, Tensor target) {
    return of_elements(kernels::LogisticLoss{}, std::move(x), std::move(target));
}

Loss huber_loss(Tensor x, Tensor target, double delta) {
    return as_op("huber_loss", [&]() -> Loss {
        check_range("huber_loss", "delta", delta, std::numeric_limits<double>::min(),
                    std::numeric_limits<double>::max());
        const Loss smooth = smooth_l1_loss(std::move(x), std::move(target), delta);
        return {smooth.sum() * delta, std::get<double>(smooth.counted())};
    });
}

Loss sigmoid_focal_loss(Tensor x, Tensor target, const FocalLossOptions& options) {
    constexpr double most = std::numeric_limits<double>::max();
    check_range("sigmoid_focal_loss", "alpha", options.alpha, -most, 1);
    check_range("sigmoid_focal_loss", "gamma", options.gamma, 0, most);
    return of_elements(kernels::FocalLoss{options.alpha, options.gamma}, std::move(x), std::move(target));
}

Loss kl_div(Tensor x, Tensor target, bool log_target) {
    return as_op("kl_div", [&]() -> Loss {
        check_defined("kl_div", {{"x", x}, {"target", target}});
        check_form("kl_div", {"x", x}, x.rank() > 0, "[N, ...]");
        const auto terms = static_cast<double>(x.size(0));
        const Loss loss = log_target ? of_elements(kernels::KlDivergenceOfLogarithms{}, std::move(x), std::move(target))
                                     : of_elements(kernels::KlDivergence{}, std::move(x), std::move(target));
        return {loss.sum(), terms};
    });
}

}  // namespace headroom
