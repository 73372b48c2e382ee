#pragma once
// Normalisation by the root mean square of the last axis (Zhang and Sennrich 2019, arXiv:1910.07467). To also remove
// the mean see layer_norm.hpp.
//
//     Tensor y = rms_norm(x, gamma);       // x [12, 64, 128], gamma [128]
//     Tensor z = rms_norm(x, {}, 1e-6);
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct RmsNorm {
    static constexpr OpInfo info{.name = "rms_norm", .precision = Precision::full};
    struct Attrs {
        double epsilon = 1e-5;
        std::optional<Dtype> dtype{};  ///< dtype of the result, if not x's
    };
    struct Saved {
        Array x;
        Array gamma;
        Array rstd;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& gamma);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x / sqrt(mean(x^2) + epsilon) * gamma along the last axis; x [..., n], gamma [n] or undefined (1). Floating dtypes,
/// which may differ. The result has x's dtype; under `Autocast`, f32 gives the half dtype. Computed in f32 (f64 for
/// f64). Errors: ShapeError, DtypeError.
Tensor rms_norm(Tensor x, Tensor gamma = {}, double epsilon = 1e-5);

}  // namespace headroom
