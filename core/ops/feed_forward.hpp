#pragma once
// The feed-forward part of a transformer block as one op: up, activation, down. Keeps only the activation's argument:
// backward recomputes the hidden layer in the pass that differentiates it, where `linear(gelu(linear(x)))` keeps twice
// as much. For gated forms, or dropout between the steps, use `linear` and an activation.
//
//     Tensor y = feed_forward(x, up.weight, up.bias, down.weight, down.bias);  // x [12, 64, 128] -> [12, 64, 128]
//     Tensor z = feed_forward(x, w1, {}, w2, {}, Activation::relu);            // no biases
#include <headroom/core/apply.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom {

using kernels::Activation;

namespace ops {

struct FeedForward {
    static constexpr OpInfo info{.name = "feed_forward", .cost = Cost::expensive, .precision = Precision::half};
    struct Attrs {
        Activation activation = Activation::gelu_tanh;
    };
    struct Saved {
        Array x;
        Array up_weight;
        Array down_weight;
        Array inner;  ///< the activation's argument
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& up_weight,
                                          const Array& up_bias, const Array& down_weight, const Array& down_bias);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// activation(x up_weight^T + up_bias) down_weight^T + down_bias: x [..., in], up_weight [hidden, in], up_bias [hidden]
/// or undefined, down_weight [out, hidden], down_bias [out] or undefined -> [..., out]. `activation`: relu, gelu_tanh
/// or gelu_erf. Floating dtypes; mixed ones are cast to the widest, under `Autocast` to the half dtype. Keeps x and
/// [..., hidden] for backward. Forward and backward each need workspace: about a quarter of [..., hidden], a sixth for
/// halves, or more if that is below 1 MiB or, on a GPU, below the context's scratch budget; plus the scratch of the
/// products. The workspace holds a part of the rows at a time; half-precision weight gradients are rounded once per
/// part. Errors: ShapeError, DtypeError; Error for `Activation::none`.
Tensor feed_forward(Tensor x, Tensor up_weight, Tensor up_bias, Tensor down_weight, Tensor down_bias,
                    Activation activation = Activation::gelu_tanh);

}  // namespace headroom
