#pragma once
// A linear map and the cross entropy of its result, in chunks of rows: the logits are never stored whole, neither
// forward nor backward, which computes them again. For a head much wider than the model; a small one is faster with
// `cross_entropy(linear(...))`.
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
    struct Saved {
        Array x;
        Array weight;
        Array targets;
        Array class_weights;
        Array lse;
    };
    using Out = std::array<Array, 2>;  ///< sum and number of terms
    static Result<Saved, Out> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                      const Array& targets, const Array& class_weights);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Out douts, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// `cross_entropy(linear(x, weight), targets, options)`: x [..., in], weight [C, in], targets [...] (i32 or i64); the
/// sum over rows is f32 (f64 for f64). Workspace: the logits of a quarter of the rows at most, some 4 MB, but 128 rows
/// at least. Errors: those of the two.
Loss linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, CrossEntropyOptions options = {});

}  // namespace headroom
