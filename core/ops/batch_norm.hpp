#pragma once
// Batch normalisation of images (Ioffe and Szegedy 2015, arXiv:1502.03167), optionally followed by a residual add and a
// ReLU. Only x is kept for backward, which recomputes the ReLU's mask. With a residual, the mask is the sign of the
// result, which the next convolution keeps anyway. The functions are pure: they return the batch statistics, and
// `nn::BatchNorm2d` maintains the running ones. For statistics of single images see group_norm.hpp.
//
//     auto [y, mean, variance] = batch_norm(x, weight, bias);                       // x [8, 64, 56, 56], weight [64]
//     Tensor z = batch_norm(x, weight, bias, {.relu = true, .residual = r}).y;      // relu(batch_norm(x) + r)
//     Tensor e = frozen_batch_norm(x, running_mean, running_var, weight, bias);
#include <array>
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

/// Mean and variance of each channel.
struct BatchMoments {
    static constexpr OpInfo info{
        .name = "batch_moments", .cost = Cost::expensive, .precision = Precision::full, .couples_samples = true};
    using Attrs = NoAttrs;
    struct Saved {};
    static OpResult<Saved, std::array<Array, 2>> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};

/// Normalises with given statistics. The gradient treats them as x's own, unless they are constant. Computing the
/// statistics is a separate op, so that a replay already has them.
struct BatchNorm {
    static constexpr OpInfo info{.name = "batch_norm", .precision = Precision::full, .in_place = 1 | 1 << 5};
    struct Attrs {
        double epsilon = 1e-5;
        bool relu = false;
        bool constant = false;         ///< the statistics do not depend on x
        std::optional<Dtype> dtype{};  ///< dtype of the result, if not x's
    };
    struct Saved {
        Array x;  ///< undefined if the gradient does not depend on it
        Array mean, variance, weight, bias;
        Array y;  ///< if it serves as the mask
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& mean,
                                          const Array& variance, const Array& weight, const Array& bias,
                                          const Array& residual);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

struct BatchNormOptions {
    double epsilon = 1e-5;
    bool relu = false;     ///< applied last
    Tensor residual = {};  ///< of x's shape; added after weight and bias
};

struct BatchNormResult {
    Tensor y;
    Tensor mean, variance;  ///< [C] as used for y, the variance divided by n; no gradient
};

/// (x - mean) / sqrt(variance + epsilon) * weight + bias, with statistics per channel over the batch and all axes after
/// the channels. x [N, C, ...], weight and bias [C] or undefined (1 and 0). Floating dtypes, which may differ. y has
/// x's dtype; under `Autocast`, f32 gives the half dtype. Computed in f32 (f64 for f64), which is the dtype of the
/// statistics. Errors: ShapeError, also if a channel has fewer than two values; DtypeError.
BatchNormResult batch_norm(Tensor x, Tensor weight = {}, Tensor bias = {}, BatchNormOptions options = {});

/// The same with constant statistics [C], for evaluation or for layers that are not trained. x is kept for backward
/// only if the weight's gradient is wanted. Errors: as above, except for the number of values; Error if mean or
/// variance would need a gradient.
Tensor frozen_batch_norm(Tensor x, Tensor mean, Tensor variance, Tensor weight = {}, Tensor bias = {},
                         BatchNormOptions options = {});

}  // namespace headroom
