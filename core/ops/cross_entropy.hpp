#pragma once
// Cross entropy of logits and class indices. Each row whose target is not `ignore_index` is a term; with class weights,
// it counts with the weight of its class. Probabilities are never stored. For the logits of a wide linear layer see
// linear_cross_entropy.hpp, which does not store the logits either.
//
//     Loss loss = cross_entropy(logits, targets);            // logits [12, 64, 65], targets [12, 64]
//     Loss smooth = cross_entropy(logits, targets, {.ignore_index = 0, .label_smoothing = 0.1});
//     Loss weighted = cross_entropy(logits, targets, {.class_weights = weights});   // weights [65]
//     backward(loss.mean());
#include <headroom/core/apply.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

namespace headroom {

struct CrossEntropyOptions {
    std::int64_t ignore_index = -100;  ///< rows with this target add neither to the sum nor to the terms
    double label_smoothing = 0;        ///< weight of the uniform distribution
    /// [C], floating, without a gradient. A row counts as much as the weight of its target, and the terms are the sum
    /// of these weights, so that `mean()` is PyTorch's weighted mean. Undefined: all weights are 1.
    Tensor class_weights = {};
};

namespace ops {

struct CrossEntropy {
    static constexpr OpInfo info{.name = "cross_entropy", .precision = Precision::full, .differentiable_outputs = 1};
    using Attrs = kernels::CrossEntropyOptions;
    struct Saved {
        Array logits;
        Array targets;
        Array weights;
        Array lse;
    };
    using Out = std::array<Array, 2>;  ///< sum and number of terms
    static OpResult<Saved, Out> forward(Exec& exec, const Attrs& attrs, const Array& logits, const Array& targets,
                                        const Array& weights);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// Errors: Error for options out of range, ShapeError or DtypeError for weights that are not [classes].
void check_cross_entropy(const char* op, const kernels::CrossEntropyOptions& options, const Array& targets,
                         const Array& weights, std::int64_t classes);

/// The class weights in the form that kernels take, with memory for their sum where needed; keep both alive together.
/// Sums are f64 for f64 logits.
struct WeightsOfClasses {
    WeightsOfClasses(Exec& exec, const kernels::CrossEntropyOptions& options, const Array& weights, Dtype logits);
    Array wide, total;
    kernels::ClassWeights view;
};

/// Storage for what backward needs of each row's logits: [..., 2], laid out as in
/// kernels/cross_entropy/cross_entropy.hpp.
Array empty_lse(Exec& exec, const Array& targets, Dtype logits);

/// The options without the weights. Errors: Error for weights that require a gradient.
kernels::CrossEntropyOptions attributes_of(const char* op, const CrossEntropyOptions& options);

}  // namespace ops

/// The sum over rows of -log softmax(logits)[target], times the target's weight. logits [..., C] of any floating dtype,
/// targets [...] (i32 or i64). The sum is f32 (f64 for f64); its terms are counted on the device. Errors: ShapeError,
/// also for a target outside [0, C), with its value and position; DtypeError; Error for weights that require a
/// gradient.
Loss cross_entropy(Tensor logits, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
