#pragma once
// Resizes images. For learned upsampling see conv_transpose2d; for padding see pad.hpp.
//
//     Tensor y = interpolate(x, {.scale = 2.0});                                                // nearest
//     Tensor z = interpolate(x, {.scale = 2.0, .mode = Interpolation::bilinear, .align_corners = true});
//     Tensor w = interpolate(x, {.size = {{384, 512}}, .mode = Interpolation::bilinear});
#include <cstdint>
#include <optional>

#include <headroom/core/apply.hpp>

namespace headroom {

enum class Interpolation : std::uint8_t { nearest, bilinear };

struct InterpolateOptions {
    std::optional<IntPair> size{};  ///< rows and columns of the result
    /// Instead of a size: the result has floor(H scale) rows and floor(W scale) columns. If the two factors differ,
    /// give the size.
    std::optional<double> scale{};
    Interpolation mode = Interpolation::nearest;
    /// True: the centres of the corner pixels are aligned; false: their outer edges. For bilinear interpolation.
    bool align_corners = false;
    /// Computes coordinates from the sizes, as if a size had been given, and not from `scale`. The results differ if H
    /// scale is not an integer.
    bool recompute_scale_factor = false;
};

namespace ops {

struct Interpolate {
    static constexpr OpInfo info{.name = "interpolate"};
    using Attrs = InterpolateOptions;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x [N, C, H, W] of any floating dtype; computed in f32 (f64 for f64) with PyTorch's coordinates (see
/// kernels/resample/axis_map.hpp). Errors: ShapeError, also for images or a result without elements; DtypeError; Error
/// unless exactly one of a size and a scale above 0 is given, for align_corners with nearest, and for a size with
/// `recompute_scale_factor`.
Tensor interpolate(Tensor x, const InterpolateOptions& options);

}  // namespace headroom
