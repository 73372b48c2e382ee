#pragma once
// Layer normalisation over the last axis (Ba, Kiros and Hinton 2016, arXiv:1607.06450). For other axes transpose first;
// for normalisation without removing the mean see rms_norm.hpp.
//
//     Tensor y = layer_norm(x, gamma, beta);      // x [12, 64, 128], gamma and beta [128]
//     Tensor z = layer_norm(x, gamma, {}, 1e-6);  // no beta
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct LayerNorm {
    static constexpr OpInfo info{.name = "layer_norm", .precision = Precision::full};
    struct Attrs {
        double epsilon = 1e-5;
        std::optional<Dtype> dtype{};  ///< dtype of the result, if not x's
    };
    struct Saved {
        Array x;
        Array gamma;
        Array mean;
        Array rstd;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& gamma,
                                          const Array& beta);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// (x - mean) / sqrt(variance + epsilon) * gamma + beta along the last axis; the variance is divided by n. x [..., n],
/// gamma and beta [n] or undefined (1 and 0). Floating dtypes, which may differ. The result has x's dtype; under
/// `Autocast`, f32 gives the half dtype. Computed in f32 (f64 for f64). Errors: ShapeError, DtypeError.
Tensor layer_norm(Tensor x, Tensor gamma = {}, Tensor beta = {}, double epsilon = 1e-5);

}  // namespace headroom
