#include <headroom/core/ops/cross_entropy.hpp>

#include <headroom/core/ops/checks.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

void check_cross_entropy(const char* op, const kernels::CrossEntropyOptions& options, const Array& targets,
                         const Array& weights, std::int64_t classes) {
    check_index(op, {"targets", targets});
    check_range(op, "label_smoothing", options.label_smoothing, 0, 1);
    check_floating(op, {{"class_weights", weights, kOptional}});
    check_form(op, {"class_weights", weights}, weights.rank() == 1 && weights.size(0) == classes,
               "[C], one for each class of the logits");
}

WeightsOfClasses::WeightsOfClasses(Exec& exec, const kernels::CrossEntropyOptions& options, const Array& weights,
                                   Dtype logits) {
    if (!weights.defined()) return;
    view.values = weights.view();
    if (options.label_smoothing == 0) return;
    if (logits == Dtype::f64 && weights.dtype != Dtype::f64) {
        wide = exec.empty(weights.shape(), Dtype::f64, Category::workspace);
        exec.launch([&](auto& stream) { kernels::copy(stream, weights.view(), wide.view()); });
        view.values = wide.view();
    }
    total = exec.empty({}, compute_dtype(view.values.dtype), Category::workspace);
    exec.run<kernels::SumPlan>(view.values, 1.0, total.view(), 0.0f);
    view.total = total.view();
}

Array empty_lse(Exec& exec, const Array& targets, Dtype logits) {
    Shape shape = targets.shape();
    shape.push_back(2);
    return exec.empty(shape, compute_dtype(logits));
}

kernels::CrossEntropyOptions attributes_of(const char* op, const CrossEntropyOptions& options) {
    if (options.class_weights.requires_grad()) {
        throw Error(std::string(op) + ": class_weights must not require a gradient; call detach() on them");
    }
    return {options.ignore_index, options.label_smoothing};
}

OpResult<CrossEntropy::Saved, CrossEntropy::Out> CrossEntropy::forward(Exec& exec, const Attrs& attrs,
                                                                       const Array& logits, const Array& targets,
                                                                       const Array& weights) {
    check_floating(info.name, {{"logits", logits}});
    check_form(info.name, {"logits", logits}, logits.rank() > 0 && logits.size(-1) > 0, "[..., C], C at least 1");
    Shape rows = logits.shape();
    rows.erase(rows.rank() - 1);
    check_shape(info.name, {"targets", targets}, rows, {"logits", logits});
    check_cross_entropy(info.name, attrs, targets, weights, logits.size(-1));
    const Dtype compute = compute_dtype(logits.dtype);
    Array loss = exec.empty({}, compute);
    Array terms = exec.empty({}, Dtype::f64);
    Array lse = empty_lse(exec, targets, logits.dtype);
    const WeightsOfClasses classes(exec, attrs, weights, logits.dtype);
    exec.run<kernels::CrossEntropyPlan>(logits.view(), targets.view(), classes.view, attrs, loss.view(), terms.view(),
                                        0.0f, lse.view());
    return {{logits, targets, weights, std::move(lse)}, {std::move(loss), std::move(terms)}};
}

void CrossEntropy::backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink) {
    const View logits = saved.logits.view();
    const auto target = sink.destination(0, saved.logits);
    if (!target) return;
    const WeightsOfClasses classes(exec, attrs, saved.weights, logits.dtype);
    exec.launch([&](auto& stream) {
        kernels::cross_entropy_backward(stream, logits, saved.targets.view(), classes.view, attrs, saved.lse.view(),
                                        douts[0].view(), target.view(), target.beta);
    });
}

std::vector<Sample<CrossEntropy::Attrs>> CrossEntropy::samples() {
    using I = SampleInput;
    const auto weights = [](std::int64_t classes) { return I::positive({classes}).without_gradient(); };
    return {
        {"rows", {}, {I::normal({5, 4}), I::index({5}, 4), I::none()}},
        {"batches", {}, {I::normal({2, 3, 5}), I::index({2, 3}, 5), I::none()}},
        {"ignored", {.ignore_index = 1}, {I::normal({6, 3}), I::index({6}, 3), I::none()}},
        {"smoothed", {.label_smoothing = 0.1}, {I::normal({5, 4}), I::index({5}, 4), I::none()}},
        {"weighted", {.ignore_index = 1}, {I::normal({6, 4}), I::index({6}, 4), weights(4)}},
        {"weighted and smoothed",
         {.ignore_index = 2, .label_smoothing = 0.3},
         {I::normal({6, 5}), I::index({6}, 5), weights(5)}},
        {"one row", {}, {I::normal({4}), I::index({}, 4), I::none()}},
        {"no rows", {}, {I::normal({0, 4}), I::index({0}, 4), weights(4)}},
        {"targets", {}, {I::normal({5, 4}), I::index({4}, 4), I::none()}, "cross_entropy: targets [4] must be [5]"},
        {"no classes",
         {},
         {I::normal({5, 0}), I::index({5}, 1), I::none()},
         "cross_entropy: logits [5, 0] must be [..., C]"},
        {"floating targets",
         {},
         {I::normal({5, 4}), I::normal({5}), I::none()},
         "cross_entropy: targets must be i32 or i64"},
        {"integer logits",
         {},
         {I::index({5, 4}, 4), I::index({5}, 4), I::none()},
         "cross_entropy: logits must be floating"},
        {"smoothing",
         {.label_smoothing = 2},
         {I::normal({5, 4}), I::index({5}, 4), I::none()},
         "label_smoothing must be in [0, 1]"},
        {"weights",
         {},
         {I::normal({5, 4}), I::index({5}, 4), weights(5)},
         "cross_entropy: class_weights [5] must be [C], one for each class of the logits"},
        {"integer weights",
         {},
         {I::normal({5, 4}), I::index({5}, 4), I::index({4}, 3)},
         "cross_entropy: class_weights must be floating"},
    };
}

}  // namespace ops

Loss cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options) {
    const kernels::CrossEntropyOptions attributes = ops::attributes_of("cross_entropy", options);
    auto [sum, terms] =
        apply<ops::CrossEntropy>(attributes, std::move(logits), std::move(targets), std::move(options.class_weights));
    return {std::move(sum), std::move(terms)};
}

}  // namespace headroom
