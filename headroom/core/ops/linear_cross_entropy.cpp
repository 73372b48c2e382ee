#include <headroom/core/ops/linear_cross_entropy.hpp>

#include <algorithm>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/products.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>

namespace headroom {

namespace ops {

namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;
constexpr std::int64_t kMinRows = 128;  // fewer, and the weight is read more often than is good
constexpr std::int64_t kRowStep = 16;

std::int64_t chunk_rows(std::int64_t rows, std::int64_t classes) {
    const std::int64_t wanted = std::min(std::max(kMinRows, kChunkElements / classes), (rows + 3) / 4);
    return std::min(rows, (wanted + kRowStep - 1) / kRowStep * kRowStep);
}

/// One chunk of rows after the other, with room for its logits.
class Chunks {
  public:
    Chunks(Exec& exec, const Array& x, const Array& weight)
        : exec_(exec),
          x_(x.view()),
          weight_(weight.view()),
          step_(chunk_rows(x.size(0), weight.size(0))),
          memory_(exec.scratch(static_cast<std::size_t>(step_ * weight.size(0)) * size_of(x.dtype))) {}

    /// Calls `work(first, count, logits)` with the logits computed; they may be overwritten.
    template <class Work>
    void for_each(Work&& work) {
        for (std::int64_t first = 0; first < x_.size(0); first += step_) {
            const std::int64_t count = std::min(step_, x_.size(0) - first);
            const View logits = contiguous_view(memory_.data(), x_.dtype, {count, weight_.size(0)});
            product(exec_, {.a = rows_of(x_, first, count), .b = kernels::transposed(weight_), .c = logits});
            work(first, count, logits);
        }
    }

  private:
    Exec& exec_;
    View x_, weight_;
    std::int64_t step_;
    Scratch memory_;
};

}  // namespace

Result<LinearCrossEntropy::Saved, LinearCrossEntropy::Out> LinearCrossEntropy::forward(Exec& exec, const Attrs& attrs,
                                                                                       const Array& x,
                                                                                       const Array& weight,
                                                                                       const Array& targets,
                                                                                       const Array& class_weights) {
    constexpr const char* op = info.name;
    check_one_dtype(op, {{"x", x}, {"weight", weight}});
    check_form(op, {"x", x}, x.rank() == 2, "[..., in]");
    check_form(op, {"weight", weight}, weight.rank() == 2 && weight.size(0) > 0, "[C, in], C at least 1");
    check_last_axis(op, {"x", x}, weight.size(1), {"weight", weight});
    check_shape(op, {"targets", targets}, {x.size(0)}, {"x", x});
    check_cross_entropy(op, attrs, targets, class_weights, weight.size(0));
    const Dtype compute = compute_dtype(x.dtype);
    Array loss = exec.empty({}, compute);
    Array terms = exec.empty({}, Dtype::f64);
    Array lse = exec.empty(targets.shape(), compute);
    const Array total = exec.empty({}, Dtype::f64, Category::workspace);
    const WeightsOfClasses classes(exec, attrs, class_weights, x.dtype);
    exec.launch([&](auto& stream) {
        kernels::fill(stream, 0.0, total.view());
        kernels::fill(stream, 0.0, terms.view());
    });
    Chunks(exec, x, weight).for_each([&](std::int64_t first, std::int64_t count, const View& logits) {
        exec.run<kernels::CrossEntropyPlan>(logits, rows_of(targets.view(), first, count), classes.view, attrs,
                                            total.view(), terms.view(), 1.0f, rows_of(lse.view(), first, count));
    });
    exec.launch([&](auto& stream) { kernels::copy(stream, total.view(), loss.view()); });
    return {{x, weight, targets, class_weights, std::move(lse)}, {std::move(loss), std::move(terms)}};
}

void LinearCrossEntropy::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Out douts, GradSink sink) {
    const View x = saved.x.view(), weight = saved.weight.view(), targets = saved.targets.view();
    const WeightsOfClasses classes(exec, attrs, saved.class_weights, x.dtype);
    JointTargets destinations(exec, sink);
    const JointTarget& dx = destinations.ask(0);
    const JointTarget& dweight = destinations.ask(1);
    float beta = dweight.beta;
    if (x.size(0) == 0 && dweight && beta == 0.0f) {
        exec.launch([&](auto& stream) { kernels::fill(stream, 0.0, dweight.view); });
    }
    Chunks(exec, saved.x, saved.weight).for_each([&](std::int64_t first, std::int64_t count, const View& logits) {
        exec.launch([&](auto& stream) {
            kernels::cross_entropy_backward(stream, logits, rows_of(targets, first, count), classes.view, attrs,
                                            rows_of(saved.lse.view(), first, count), douts[0].view(), logits, 0.0f);
        });
        if (dx) product(exec, {.a = logits, .b = weight, .c = rows_of(dx.view, first, count), .beta = dx.beta});
        if (!dweight) return;
        product(exec,
                {.a = kernels::transposed(logits), .b = rows_of(x, first, count), .c = dweight.view, .beta = beta});
        beta = 1.0f;
    });
}

std::vector<Sample<LinearCrossEntropy::Attrs>> LinearCrossEntropy::samples() {
    using I = SampleInput;
    const auto call = [](I x, I weight, I targets, I class_weights = I::none()) {
        return std::vector{x, weight, targets, class_weights};
    };
    const auto weights = [](std::int64_t classes) { return I::positive({classes}).without_gradient(); };
    return {
        {"rows", {}, call(I::normal({5, 3}), I::normal({4, 3}), I::index({5}, 4))},
        {"chunks", {}, call(I::normal({37, 1}), I::normal({3, 1}), I::index({37}, 3))},
        {"ignored", {.ignore_index = 1}, call(I::normal({6, 2}), I::normal({3, 2}), I::index({6}, 3))},
        {"smoothed", {.label_smoothing = 0.2}, call(I::normal({4, 3}), I::normal({5, 3}), I::index({4}, 5))},
        {"weighted",
         {.ignore_index = 1, .label_smoothing = 0.2},
         call(I::normal({20, 2}), I::normal({3, 2}), I::index({20}, 3), weights(3))},
        {"no rows", {}, call(I::normal({0, 3}), I::normal({4, 3}), I::index({0}, 4))},
        {"features",
         {},
         call(I::normal({5, 3}), I::normal({4, 2}), I::index({5}, 4)),
         "linear_cross_entropy: x [5, 3]"},
        {"targets",
         {},
         call(I::normal({5, 3}), I::normal({4, 3}), I::index({4}, 4)),
         "linear_cross_entropy: targets [4]"},
        {"no classes", {}, call(I::normal({5, 3}), I::normal({0, 3}), I::index({5}, 1)), "C at least 1"},
        {"floating targets",
         {},
         call(I::normal({5, 3}), I::normal({4, 3}), I::normal({5})),
         "targets must be i32 or i64"},
        {"integers", {}, call(I::index({5, 3}, 3), I::normal({4, 3}), I::index({5}, 4)), "x must be floating"},
        {"weights",
         {},
         call(I::normal({5, 3}), I::normal({4, 3}), I::index({5}, 4), weights(3)),
         "linear_cross_entropy: class_weights [3] must be [C]"},
    };
}

}  // namespace ops

Loss linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, CrossEntropyOptions options) {
    if (x.defined() && targets.defined() && x.rank() != 2 && x.rank() > 0) {
        Shape rows = x.shape();
        rows.erase(rows.rank() - 1);
        check_shape("linear_cross_entropy", {"targets", targets}, rows, {"x", x});
        x = x.reshape({rows.numel(), x.size(-1)});
        targets = targets.reshape({rows.numel()});
    }
    const kernels::CrossEntropyOptions attributes = ops::attributes_of("linear_cross_entropy", options);
    auto [sum, terms] = apply<ops::LinearCrossEntropy>(attributes, std::move(x), std::move(weight), std::move(targets),
                                                       std::move(options.class_weights));
    return {std::move(sum), std::move(terms)};
}

}  // namespace headroom
