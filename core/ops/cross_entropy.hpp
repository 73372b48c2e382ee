#pragma once
// The cross entropy of logits and class indices, summed over rows: a loss is a sum, who needs a mean divides by the
// number of terms. Probabilities are never stored. Where the logits come from a wide linear map,
// linear_cross_entropy.hpp does not store them either.
//
//     Tensor loss = cross_entropy(logits, targets);            // logits [12, 64, 65], targets [12, 64]
//     Tensor smooth = cross_entropy(logits, targets, {.ignore_index = 0, .label_smoothing = 0.1});
//     backward(loss, 1.0 / 768);
#include <headroom/core/apply.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

namespace headroom {

/// `ignore_index` (-100): rows with this target count nothing. `label_smoothing` (0): weight of the even distribution.
using CrossEntropyOptions = kernels::CrossEntropyOptions;

namespace ops {

struct CrossEntropy {
    static constexpr OpInfo info{.name = "cross_entropy", .precision = Precision::full};
    using Attrs = CrossEntropyOptions;
    struct Saved {
        Array logits;
        Array targets;
        Array lse;
    };
    static Result<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& logits, const Array& targets);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dloss, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Errors: Error for options out of range.
void check_cross_entropy(const char* op, const CrossEntropyOptions& options, const Array& targets);

}  // namespace ops

/// The sum over rows of -log softmax(logits)[target]; logits [..., C] of any floating dtype, targets [...] (i32 or i64)
/// -> [] in f32 (f64 for f64). Errors: ShapeError, also for a target outside of [0, C), with its value and position;
/// DtypeError.
Tensor cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
