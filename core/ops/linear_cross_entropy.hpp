#pragma once
// A linear layer and the cross entropy of its result, computed in chunks of rows, so that the full logits never exist.
// Forward computes the gradients from each chunk of logits and keeps them; if the context's
// `ComputeOptions::scratch_budget` has no room for them, backward recomputes the logits. Use it for a head much wider
// than the model; a small head is faster with `cross_entropy(linear(...))`. Don't use it inside a recomputed region:
// the gradients that forward kept would be dropped and computed again, six products instead of three (five without
// room). For evaluation, compute the loss under `NoGradGuard`, which takes one product instead of three.
//
//     Loss loss = linear_cross_entropy(x, table, targets);   // x [768, 128], table [50257, 128], targets [768]
#include <headroom/core/ops/cross_entropy.hpp>

namespace headroom {

namespace ops {

struct LinearCrossEntropy {
    static constexpr OpInfo info{.name = "linear_cross_entropy",
                                 .cost = Cost::expensive,
                                 .precision = Precision::half,
                                 .differentiable_outputs = 1,
                                 .as_is = 0b1000};
    using Attrs = kernels::CrossEntropyOptions;
    /// Computed by forward if the context's scratch budget has room: the gradients of the inputs that require one, for
    /// a loss gradient of `dloss`.
    struct Kept {
        Array dloss;
        Array dx;
        Array dweight;
    };
    struct Saved {  ///< the first five, or `kept`
        Array x;
        Array weight;
        Array targets;
        Array class_weights;
        Array lse;
        Kept kept;
    };
    using Out = std::array<Array, 2>;  ///< sum and number of terms
    static OpResult<Saved, Out> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                        const Array& targets, const Array& class_weights);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Out douts, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// `cross_entropy(linear(x, weight), targets, options)`: x [..., in], weight [C, in], targets [...] (i32 or i64); the
/// sum over rows is f32 (f64 for f64). Workspace: the logits of at most a quarter of the rows, about 4 MB, but at least
/// 128 rows; on a GPU as many rows as fit into the scratch budget, with a row stride in multiples of 64 elements. Keeps
/// for backward the gradients of x (in its dtype; f32 for f16) and weight (f32; f64 for f64) where they require one, if
/// these fit into the budget; else x, weight and two f32 per row. Forward computes the gradients for a loss gradient of
/// 1 (2^15 in f16, so that small probabilities count); backward multiplies them by the actual one. In f32 this gives
/// the same bits if the actual one is a power of two. f16 with class weights keeps no gradients. Errors: those of the
/// two ops; Error from backward if x or weight was set to require a gradient only after the loss was computed.
Loss linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
