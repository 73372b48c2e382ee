#pragma once
// The affine map of a linear layer, along the last axis. The weight's gradient is written straight into the parameter's
// gradient. For general matrix products see matmul.hpp.
//
//     Tensor weight = context.from_host(values, {512, 128}).requires_grad_();   // [out, in]
//     Tensor y = linear(x, weight, bias);     // x [12, 64, 128] -> y [12, 64, 512]
//     Tensor z = linear(x, weight);           // no bias
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Linear {
    static constexpr OpInfo info{.name = "linear", .cost = Cost::expensive, .precision = Precision::half};
    struct Attrs {};
    struct Saved {
        Array x;
        Array weight;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                          const Array& bias);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x weight^T + bias: x [..., in], weight [out, in], bias [out] or undefined -> [..., out]. Floating dtypes; mixed ones
/// are cast to the widest, under `Autocast` to the half dtype. Errors: ShapeError, DtypeError.
Tensor linear(Tensor x, Tensor weight, Tensor bias = {});

}  // namespace headroom
