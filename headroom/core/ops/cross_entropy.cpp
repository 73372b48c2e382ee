#include <headroom/core/ops/cross_entropy.hpp>

#include <headroom/core/ops/checks.hpp>

namespace headroom {

namespace ops {

void check_cross_entropy(const char* op, const CrossEntropyOptions& options, const Array& targets) {
    check_index(op, {"targets", targets});
    check_range(op, "label_smoothing", options.label_smoothing, 0, 1);
}

Result<CrossEntropy::Saved, CrossEntropy::Out> CrossEntropy::forward(Exec& exec, const Attrs& attrs,
                                                                     const Array& logits, const Array& targets) {
    check_floating(info.name, {{"logits", logits}});
    check_form(info.name, {"logits", logits}, logits.rank() > 0 && logits.size(-1) > 0, "[..., C], C at least 1");
    Shape rows = logits.shape();
    rows.erase(rows.rank() - 1);
    check_shape(info.name, {"targets", targets}, rows, {"logits", logits});
    check_cross_entropy(info.name, attrs, targets);
    const Dtype compute = compute_dtype(logits.dtype);
    Array loss = exec.empty({}, compute);
    Array terms = exec.empty({}, Dtype::f64);
    Array lse = exec.empty(targets.shape(), compute);
    exec.run<kernels::CrossEntropyPlan>(logits.view(), targets.view(), attrs, loss.view(), terms.view(), 0.0f,
                                        lse.view());
    return {{logits, targets, std::move(lse)}, {std::move(loss), std::move(terms)}};
}

void CrossEntropy::backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink) {
    const View logits = saved.logits.view();
    const auto target = sink.destination(0, saved.logits);
    if (!target) return;
    exec.launch([&](auto& stream) {
        kernels::cross_entropy_backward(stream, logits, saved.targets.view(), attrs, saved.lse.view(), douts[0].view(),
                                        target.view(), target.beta);
    });
}

std::vector<Sample<CrossEntropy::Attrs>> CrossEntropy::samples() {
    using I = SampleInput;
    return {
        {"rows", {}, {I::normal({5, 4}), I::index({5}, 4)}},
        {"batches", {}, {I::normal({2, 3, 5}), I::index({2, 3}, 5)}},
        {"ignored", {.ignore_index = 1}, {I::normal({6, 3}), I::index({6}, 3)}},
        {"smoothed", {.label_smoothing = 0.1}, {I::normal({5, 4}), I::index({5}, 4)}},
        {"one row", {}, {I::normal({4}), I::index({}, 4)}},
        {"no rows", {}, {I::normal({0, 4}), I::index({0}, 4)}},
        {"targets", {}, {I::normal({5, 4}), I::index({4}, 4)}, "cross_entropy: targets [4] must be [5]"},
        {"no classes", {}, {I::normal({5, 0}), I::index({5}, 1)}, "cross_entropy: logits [5, 0] must be [..., C]"},
        {"floating targets", {}, {I::normal({5, 4}), I::normal({5})}, "cross_entropy: targets must be i32 or i64"},
        {"integer logits", {}, {I::index({5, 4}, 4), I::index({5}, 4)}, "cross_entropy: logits must be floating"},
        {"smoothing",
         {.label_smoothing = 2},
         {I::normal({5, 4}), I::index({5}, 4)},
         "label_smoothing must be in [0, 1]"},
    };
}

}  // namespace ops

Loss cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options) {
    auto [sum, terms] = apply<ops::CrossEntropy>(options, std::move(logits), std::move(targets));
    return {std::move(sum), std::move(terms)};
}

}  // namespace headroom
