#include <headroom/core/ops/linear_cross_entropy.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/run_matmul.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace ops {

namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;
constexpr std::int64_t kMinRows = 128;  // fewer, and the weight is read more often than is good
constexpr std::int64_t kRowStep = 16;
constexpr std::int64_t kLineStep = 64;  // elements between rows of logits on a GPU, for aligned products

std::size_t bytes_of(const Array& array, Dtype dtype) {
    return static_cast<std::size_t>(array.numel()) * size_of(dtype);
}

std::size_t budget_of(const Exec& exec) { return kernels::compute_of(exec.stream()).scratch_budget; }

/// How many rows of logits are there at a time: a function of shape, dtype and options alone, so that a replay computes
/// the same bits. On a GPU as many as the scratch budget has room for, evenly shared out, since each chunk reads the
/// weight up to three times and goes over its whole gradient; a processor's caches are better served by small ones.
std::int64_t chunk_rows(const Exec& exec, std::int64_t rows, std::int64_t classes, std::size_t row_bytes) {
    if (!kernels::on_cuda(exec.stream())) {
        const std::int64_t wanted =
            std::min(std::max(kMinRows, kChunkElements / classes), kernels::quotient_up(rows, 4));
        return std::min(rows, kernels::round_up(wanted, kRowStep));
    }
    const auto room = static_cast<std::int64_t>(budget_of(exec) / row_bytes);
    const std::int64_t most = std::max(room / kMinRows * kMinRows, kMinRows);
    const std::int64_t chunks = std::max<std::int64_t>(kernels::quotient_up(rows, most), 1);
    return std::min(rows, kernels::round_up(kernels::quotient_up(rows, chunks), kMinRows));
}

/// Rows [first, first + count) and their logits.
struct Chunk {
    std::int64_t first, count;
    View logits;
    View of(const View& rows) const { return rows_of(rows, first, count); }
};

/// One chunk of rows after the other, with room for its logits.
class Chunks {
  public:
    Chunks(Exec& exec, const LinearCrossEntropy::Attrs& attrs, const LinearCrossEntropy::Saved& call)
        : exec_(exec),
          attrs_(attrs),
          x_(call.x.view()),
          weight_(call.weight.view()),
          targets_(call.targets.view()),
          lse_(call.lse.view()),
          classes_(exec, attrs, call.class_weights, call.x.dtype),
          line_(kernels::round_up(weight_.size(0), kernels::on_cuda(exec.stream()) ? kLineStep : 1)) {
        const std::size_t row_bytes = static_cast<std::size_t>(line_) * size_of(x_.dtype);
        step_ = chunk_rows(exec, x_.size(0), weight_.size(0), row_bytes);
        memory_ = exec.scratch(static_cast<std::size_t>(step_) * row_bytes);
    }

    /// Calls `work(chunk)` with the logits computed.
    template <class Work>
    void for_each(Work&& work) {
        for (std::int64_t first = 0; first < x_.size(0); first += step_) {
            const std::int64_t count = std::min(step_, x_.size(0) - first);
            const Chunk chunk{first, count, {memory_.data(), x_.dtype, {count, weight_.size(0)}, {line_, 1}}};
            run_matmul(exec_, {.a = chunk.of(x_), .b = kernels::transposed(weight_), .c = chunk.logits});
            work(chunk);
        }
    }

    void add_loss(const Chunk& chunk, const View& total, const View& terms) {
        exec_.run<kernels::CrossEntropyPlan>(chunk.logits, chunk.of(targets_), classes_.view, attrs_, total, terms,
                                             1.0f, chunk.of(lse_));
    }

    /// Writes the gradients of x's rows, and adds the weight's after the first chunk. Overwrites the logits.
    void add_gradients(const Chunk& chunk, const View& dloss, const JointTarget& dx, const JointTarget& dweight) {
        const View& logits = chunk.logits;
        exec_.launch([&](auto& stream) {
            kernels::cross_entropy_backward(stream, logits, chunk.of(targets_), classes_.view, attrs_, chunk.of(lse_),
                                            dloss, logits, 0.0f);
        });
        if (dx) run_matmul(exec_, {.a = logits, .b = weight_, .c = chunk.of(dx.view), .beta = dx.beta});
        if (!dweight) return;
        run_matmul(exec_, {.a = kernels::transposed(logits),
                           .b = chunk.of(x_),
                           .c = dweight.view,
                           .beta = chunk.first > 0 ? 1.0f : dweight.beta});
    }
    /// Without rows there is no chunk, and the weight's gradient is zero.
    void without_rows(const JointTarget& dweight) {
        if (x_.size(0) > 0 || !dweight || dweight.beta != 0.0f) return;
        exec_.launch([&](auto& stream) { kernels::fill(stream, 0.0, dweight.view); });
    }

  private:
    Exec& exec_;
    const LinearCrossEntropy::Attrs& attrs_;
    View x_, weight_, targets_, lse_;
    WeightsOfClasses classes_;
    std::int64_t line_, step_ = 0;
    Scratch memory_;
};

/// Room for the gradients that forward computes, if the budget has it. The logits' gradient is a number between -1 and
/// 1, of which f16 loses what is small: there, the loss's is large, and x's is kept in f32. Weights of classes, which
/// could take it beyond f16's range, are left to backward and its loss scale.
LinearCrossEntropy::Kept room_to_keep(Exec& exec, const Array& x, const Array& weight, const Array& class_weights) {
    LinearCrossEntropy::Kept kept;
    const Dtype wide = compute_dtype(x.dtype), narrow = x.dtype == Dtype::f16 ? wide : x.dtype;
    if (!exec.saved_wanted() || (x.dtype == Dtype::f16 && class_weights.defined())) return kept;
    const bool for_x = exec.gradient_wanted(0), for_weight = exec.gradient_wanted(1);
    if ((for_x ? bytes_of(x, narrow) : 0) + (for_weight ? bytes_of(weight, wide) : 0) > budget_of(exec)) return kept;
    kept.dloss = exec.empty({}, wide);
    if (for_x) kept.dx = exec.empty(x.shape(), narrow);  // grows with the batch, as activations do
    if (for_weight) kept.dweight = exec.empty(weight.shape(), wide, Category::gradients);
    const double dloss = x.dtype == Dtype::f16 ? 0x1p15 : 1.0;
    exec.launch([&](auto& stream) { kernels::fill(stream, dloss, kept.dloss.view()); });
    return kept;
}

JointTarget overwritten(const Array& array) {
    return array.defined() ? JointTarget{array.view(), 0.0f, true} : JointTarget{};
}

/// Gradients that forward computed, for its own gradient of the loss, times the ratio of the two.
void give_kept(Exec& exec, LinearCrossEntropy::Kept& kept, const View& dloss, GradSink& sink) {
    const Array ratio = exec.empty({}, dloss.dtype, Category::workspace);
    exec.launch([&](auto& stream) { kernels::map(stream, kernels::Div{}, dloss, kept.dloss.view(), ratio.view()); });
    const auto give = [&](int input, const char* name, Array& gradient) {
        if (!sink.wanted(input)) return;
        if (!gradient.defined()) {
            throw Error(
                fmt::format("linear_cross_entropy: {} must require a gradient before the loss is computed", name));
        }
        const View values = gradient.view(), factors = kernels::broadcast_to(ratio.view(), values.shape);
        const GradientDestination target = sink.destination(input, gradient);
        exec.launch([&](auto& stream) {
            kernels::map_backward_a(stream, kernels::Mul{}, values, factors, values, target.beta, target.view());
        });
        gradient = {};
    };
    give(0, "x", kept.dx);
    give(1, "weight", kept.dweight);
}

}  // namespace

OpResult<LinearCrossEntropy::Saved, LinearCrossEntropy::Out> LinearCrossEntropy::forward(Exec& exec, const Attrs& attrs,
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
    Saved saved{x, weight, targets, class_weights, empty_lse(exec, targets, x.dtype), {}};
    Kept kept = room_to_keep(exec, x, weight, class_weights);
    const JointTarget dx = overwritten(kept.dx), dweight = overwritten(kept.dweight);
    const Array total = exec.empty({}, Dtype::f64, Category::workspace);
    exec.launch([&](auto& stream) {
        kernels::fill(stream, 0.0, total.view());
        kernels::fill(stream, 0.0, terms.view());
    });
    Chunks chunks(exec, attrs, saved);
    chunks.for_each([&](const Chunk& chunk) {
        chunks.add_loss(chunk, total.view(), terms.view());
        if (kept.dloss.defined()) chunks.add_gradients(chunk, kept.dloss.view(), dx, dweight);
    });
    chunks.without_rows(dweight);
    exec.launch([&](auto& stream) { kernels::copy(stream, total.view(), loss.view()); });
    if (kept.dloss.defined()) saved = {{}, {}, {}, {}, {}, std::move(kept)};
    return {std::move(saved), {std::move(loss), std::move(terms)}};
}

void LinearCrossEntropy::backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink) {
    if (saved.kept.dloss.defined()) return give_kept(exec, saved.kept, douts[0].view(), sink);
    JointTargets destinations(exec, sink);
    const JointTarget& dx = destinations.ask(0);
    const JointTarget& dweight = destinations.ask(1);
    Chunks chunks(exec, attrs, saved);
    chunks.for_each([&](const Chunk& chunk) { chunks.add_gradients(chunk, douts[0].view(), dx, dweight); });
    chunks.without_rows(dweight);
}

Operations LinearCrossEntropy::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape> made) {
    const double product = 2 * elements_of(inputs[0]) * static_cast<double>(inputs[1][0]);
    const bool kept = made.size() > 3;  // beside sum and number of terms: gradients, not the rows' logarithms alone
    return kept ? Operations{3 * product, 0} : Operations{product, 3 * product};
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
