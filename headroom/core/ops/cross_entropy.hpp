#pragma once
// The cross entropy of logits and class indices; each row whose target is not `ignore_index` is a term. Probabilities
// are never stored. For logits of a wide linear map see linear_cross_entropy.hpp, which does not store them either.
//
//     Loss loss = cross_entropy(logits, targets);            // logits [12, 64, 65], targets [12, 64]
//     Loss smooth = cross_entropy(logits, targets, {.ignore_index = 0, .label_smoothing = 0.1});
//     backward(loss.mean());
#include <headroom/core/apply.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

namespace headroom {

/// `ignore_index` (-100): rows with this target add nothing to the loss and are no terms. `label_smoothing` (0): weight
/// of the even distribution.
using CrossEntropyOptions = kernels::CrossEntropyOptions;

namespace ops {

struct CrossEntropy {
    static constexpr OpInfo info{.name = "cross_entropy", .precision = Precision::full, .differentiable_outputs = 1};
    using Attrs = CrossEntropyOptions;
    struct Saved {
        Array logits;
        Array targets;
        Array lse;
    };
    using Out = std::array<Array, 2>;  ///< sum and number of terms
    static Result<Saved, Out> forward(Exec& exec, const Attrs& attrs, const Array& logits, const Array& targets);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Errors: Error for options out of range.
void check_cross_entropy(const char* op, const CrossEntropyOptions& options, const Array& targets);

}  // namespace ops

/// The sum over rows of -log softmax(logits)[target]; logits [..., C] of any floating dtype, targets [...] (i32 or
/// i64); the sum is f32 (f64 for f64), its terms are counted on the device. Errors: ShapeError, also for a target
/// outside of [0, C), with its value and position; DtypeError.
Loss cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
