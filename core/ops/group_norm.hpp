#pragma once
// Normalisation of images by the statistics of groups of their channels (Wu and He 2018, arXiv:1803.08494), which do
// not depend on the batch. For statistics over the batch see batch_norm.hpp, for a single group of all channels with
// the weights of each element layer_norm.hpp.
//
//     Tensor y = group_norm(x, 32, weight, bias);      // x [8, 64, 56, 56], weight and bias [64]
//     Tensor z = instance_norm(x);                     // a channel in each group
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct GroupNorm {
    static constexpr OpInfo info{.name = "group_norm", .precision = Precision::full};
    struct Attrs {
        std::int64_t groups = 1;
        double epsilon = 1e-5;
        std::optional<Dtype> dtype{};  ///< of the result, if not x's
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

/// (x - mean) / sqrt(variance + epsilon) * weight + bias, with statistics for each of `groups` groups of neighbouring
/// channels of an image, over these channels and all axes behind; the variance is over n; x [N, C, ...], weight and
/// bias [C] or undefined (1 and 0). Floating dtypes, also different ones; the result has x's, under `Autocast` the half
/// dtype for f32, computed in f32 (f64 for f64). Errors: ShapeError, also unless the groups divide C; DtypeError.
Tensor group_norm(Tensor x, std::int64_t groups, Tensor weight = {}, Tensor bias = {}, double epsilon = 1e-5);

/// Each channel of an image by itself: C groups (Ulyanov, Vedaldi and Lempitsky 2016, arXiv:1607.08022). Errors: as
/// group_norm; ShapeError if a channel of an image has one value.
Tensor instance_norm(Tensor x, Tensor weight = {}, Tensor bias = {}, double epsilon = 1e-5);

}  // namespace headroom
