#pragma once
// Normalisation of images by statistics of channel groups (Wu and He 2018, arXiv:1803.08494), which do not depend on
// the batch. For batch statistics see batch_norm.hpp; for one group of all channels with a weight for each element see
// layer_norm.hpp.
//
//     Tensor y = group_norm(x, 32, weight, bias);      // x [8, 64, 56, 56], weight and bias [64]
//     Tensor z = instance_norm(x);                     // one channel per group
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct GroupNorm {
    static constexpr OpInfo info{.name = "group_norm", .precision = Precision::full};
    struct Attrs {
        std::int64_t groups = 1;
        double epsilon = 1e-5;
        std::optional<Dtype> dtype{};  ///< dtype of the result, if not x's
    };
    struct Saved {
        Array x, weight, mean, variance;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                          const Array& bias);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// (x - mean) / sqrt(variance + epsilon) * weight + bias. Statistics are per image and group of adjacent channels, over
/// these channels and all axes after them; the variance is divided by n. x [N, C, ...], weight and bias [C] or
/// undefined (1 and 0). Floating dtypes, which may differ. The result has x's dtype; under `Autocast`, f32 gives the
/// half dtype. Computed in f32 (f64 for f64). Errors: ShapeError, also unless the groups divide C; DtypeError.
Tensor group_norm(Tensor x, std::int64_t groups, Tensor weight = {}, Tensor bias = {}, double epsilon = 1e-5);

/// Normalises each channel of each image by itself: C groups (Ulyanov, Vedaldi and Lempitsky 2016, arXiv:1607.08022).
/// Errors: as group_norm; ShapeError if a channel of an image has only one value.
Tensor instance_norm(Tensor x, Tensor weight = {}, Tensor bias = {}, double epsilon = 1e-5);

}  // namespace headroom
