#include <headroom/core/ops/cross_entropy.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

void check(const CrossEntropyOptions& options, const Array& logits, const Array& targets) {
    if (!is_floating(logits.dtype)) {
        throw DtypeError(fmt::format("cross_entropy: logits must be floating, got {}; use cast()", name(logits.dtype)));
    }
    if (logits.rank() == 0 || logits.size(-1) == 0) {
        throw ShapeError(
            fmt::format("cross_entropy: logits {} have no classes along their last axis", logits.shape().text()));
    }
    Shape rows = logits.shape();
    rows.erase(rows.rank() - 1);
    if (targets.shape() != rows) {
        throw ShapeError(fmt::format("cross_entropy: targets {} do not match logits {}; they must be {}",
                                     targets.shape().text(), logits.shape().text(), rows.text()));
    }
    check_cross_entropy("cross_entropy", options, targets);
}

}  // namespace

void check_cross_entropy(const char* op, const CrossEntropyOptions& options, const Array& targets) {
    if (targets.dtype != Dtype::i32 && targets.dtype != Dtype::i64) {
        throw DtypeError(fmt::format("{}: targets must be i32 or i64, got {}", op, name(targets.dtype)));
    }
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
        throw Error(fmt::format("{}: label_smoothing must be in [0, 1], got {}", op, options.label_smoothing));
    }
}

Result<CrossEntropy::Saved, Array> CrossEntropy::forward(Exec& exec, const Attrs& attrs, const Array& logits,
                                                         const Array& targets) {
    check(attrs, logits, targets);
    const Dtype compute = logits.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    Array loss = exec.empty({}, compute);
    Array lse = exec.empty(targets.shape(), compute);
    const Scratch scratch = exec.scratch(kernels::cross_entropy_scratch(exec.stream(), targets.view()));
    exec.launch([&](auto& stream) {
        kernels::cross_entropy(stream, logits.view(), targets.view(), attrs, loss.view(), 0.0f, lse.view(),
                               scratch.data());
    });
    return {{logits, targets, std::move(lse)}, std::move(loss)};
}

void CrossEntropy::backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dloss, GradSink sink) {
    const View logits = saved.logits.view();
    const auto target = sink.destination(0, saved.logits);
    if (!target) return;
    exec.launch([&](auto& stream) {
        kernels::cross_entropy_backward(stream, logits, saved.targets.view(), attrs, saved.lse.view(), dloss.view(),
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
        {"targets", {}, {I::normal({5, 4}), I::index({4}, 4)}, "cross_entropy: targets [4] do not match logits [5, 4]"},
        {"no classes", {}, {I::normal({5, 0}), I::index({5}, 1)}, "cross_entropy: logits [5, 0] have no classes"},
        {"floating targets", {}, {I::normal({5, 4}), I::normal({5})}, "cross_entropy: targets must be i32 or i64"},
        {"integer logits", {}, {I::index({5, 4}, 4), I::index({5}, 4)}, "cross_entropy: logits must be floating"},
        {"smoothing",
         {.label_smoothing = 2},
         {I::normal({5, 4}), I::index({5}, 4)},
         "label_smoothing must be in [0, 1]"},
    };
}

}  // namespace ops

Tensor cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options) {
    return apply<ops::CrossEntropy>(options, std::move(logits), std::move(targets));
}

}  // namespace headroom
