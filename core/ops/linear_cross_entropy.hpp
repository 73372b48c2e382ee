#pragma once
// A linear map and the cross entropy of its result, in chunks of rows: the logits never exist all at once. Forward
// computes the gradients from each chunk of logits, and keeps them; without room for them in the context's
// `ComputeOptions::scratch_budget`, backward computes the logits again. For a head much wider than the model; a small
// one is faster with `cross_entropy(linear(...))`. Not inside of a region that is recomputed: the gradients that
// forward kept would be dropped and made again, six products in place of three (five without room). To evaluate,
// compute the loss under `NoGradGuard`: it takes one product, not three.
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
    /// Forward computes these if the context's scratch budget has room: the gradients of the inputs that require one,
    /// for a loss's gradient of `dloss`.
    struct Kept {
        Array dloss;
        Array dx;
        Array dweight;
    };
    struct Saved {  ///< the first five, or what is kept
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
/// sum over rows is f32 (f64 for f64). Workspace: the logits of a quarter of the rows at most, some 4 MB, but of 128
/// rows at least; on a GPU as many as fit into the scratch budget, with rows in steps of 64 elements. Keeps for
/// backward: the gradients of x (of its dtype; f32 for f16) and weight (f32; f64 for f64) where they require one, if
/// these fit into the budget; else x, weight and two f32 for each row. Forward computes the gradients for a loss's
/// gradient of 1 (2^15 in f16, so that small probabilities count); backward multiplies them by the actual one. In f32
/// that gives the same bits where it is a power of two. f16 with class weights keeps none. Errors: those of the two;
/// Error from backward if x or weight was set to require a gradient only after the loss was computed.
Loss linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
