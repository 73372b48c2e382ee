#pragma once
// Images of another size. For learnt enlargement see conv_transpose2d; for padding see pad.hpp.
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
    /// In place of a size: the result has floor(H scale) rows and floor(W scale) columns. For axes of different factors
    /// name the size.
    std::optional<double> scale{};
    Interpolation mode = Interpolation::nearest;
    /// The outermost pixels' centres coincide, else their outer edges do. For bilinear interpolation.
    bool align_corners = false;
    /// Coordinates follow from the sizes, as if these had been given, and not from `scale`. The results differ where H
    /// scale is not a whole number.
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

/// x [N, C, H, W] of any floating dtype, computed in f32 (f64 for f64), with PyTorch's coordinates (see
/// kernels/resample/axis_map.hpp). Errors: ShapeError, also for images or a result without elements; DtypeError; Error
/// unless either a size or a scale above 0 is given, for aligned corners of nearest pixels, and for a size with
/// `recompute_scale_factor`.
Tensor interpolate(Tensor x, const InterpolateOptions& options);

}  // namespace headroom
