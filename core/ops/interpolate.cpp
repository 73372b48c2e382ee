#include <headroom/core/ops/interpolate.hpp>

#include <cmath>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/images.hpp>

namespace headroom {

namespace ops {

namespace {

using kernels::AxisMap;

IntPair size_of_result(const InterpolateOptions& options, const Shape& x) {
    if (options.size) return *options.size;
    const auto scaled = [&](std::int64_t size) {
        return static_cast<std::int64_t>(std::floor(static_cast<double>(size) * *options.scale));
    };
    return {scaled(x[2]), scaled(x[3])};
}

ImageMaps maps_of(const InterpolateOptions& options, const Shape& x, IntPair size) {
    const std::optional<double> factor = options.recompute_scale_factor ? std::nullopt : options.scale;
    const auto map = [&](std::int64_t from, std::int64_t to) {
        return options.mode == Interpolation::nearest ? AxisMap::nearest(from, to, factor)
                                                      : AxisMap::linear(from, to, options.align_corners, factor);
    };
    return {map(x[2], size[0]), map(x[3], size[1])};
}

void check_options(const InterpolateOptions& options) {
    if (options.size.has_value() == options.scale.has_value()) {
        throw Error(fmt::format("interpolate: needs a size or a scale, got {}", options.size ? "both" : "neither"));
    }
    // So large that a size is counted in 63 bits, and its elements are refused where they can't be.
    constexpr double most = 1 << 30;
    if (options.scale && !(*options.scale > 0 && *options.scale <= most))
        throw Error(fmt::format("interpolate: scale must be above 0 and at most {}, got {}", most, *options.scale));
    if (options.size && options.recompute_scale_factor)
        throw Error("interpolate: recompute_scale_factor needs a scale, not a size");
    if (options.align_corners && options.mode == Interpolation::nearest)
        throw Error("interpolate: align_corners needs bilinear interpolation");
}

}  // namespace

OpResult<Interpolate::Saved, Array> Interpolate::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_images("interpolate", x);
    check_options(attrs);
    const auto size = size_of_result(attrs, x.shape());
    if (size[0] < 1 || size[1] < 1) {
        throw ShapeError(fmt::format("interpolate: x {} would become {} x {}, which has no elements",
                                     x.shape().to_string(), size[0], size[1]));
    }
    return {{}, resampled(exec, x, maps_of(attrs, x.shape(), size))};
}

void Interpolate::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    give_resampled(exec, dy, maps_of(attrs, sink.shape(0), {dy.size(2), dy.size(3)}), sink);
}

std::vector<Sample<Interpolate::Attrs>> Interpolate::samples() {
    using In = SampleInput;
    constexpr auto bilinear = Interpolation::bilinear;
    const In x = In::normal({2, 3, 4, 5});
    return {{"nearest, doubled", {.scale = 2.0}, {x}},
            {"nearest, to a size", {.size = {{3, 7}}}, {x}},
            {"bilinear, doubled", {.scale = 2.0, .mode = bilinear}, {In::normal({1, 8, 3, 4})}},
            {"corners aligned", {.scale = 2.0, .mode = bilinear, .align_corners = true}, {x}},
            {"to a size", {.size = {{3, 1}}, .mode = bilinear}, {x}},
            {"a scale that fits no size", {.scale = 1.3, .mode = bilinear}, {x}},
            {"the sizes' scale", {.scale = 1.3, .mode = bilinear, .recompute_scale_factor = true}, {x}},
            {"one pixel", {.size = {{2, 3}}, .mode = bilinear, .align_corners = true}, {In::normal({2, 3, 1, 1})}},
            {"no images", {.scale = 2.0}, {In::normal({0, 3, 4, 4})}},
            {"neither", {}, {x}, "needs a size or a scale, got neither"},
            {"both", {.size = 2, .scale = 2.0}, {x}, "got both"},
            {"a size's scale", {.size = 2, .recompute_scale_factor = true}, {x}, "needs a scale, not a size"},
            {"no scale", {.scale = 0.0}, {x}, "scale must be above 0"},
            {"not a number", {.scale = std::nan("")}, {x}, "scale must be above 0"},
            {"to nothing", {.scale = 0.2}, {x}, "x [2, 3, 4, 5] would become 0 x 1"},
            {"to a negative size", {.size = {{2, -1}}}, {x}, "would become 2 x -1"},
            {"aligned nearest", {.scale = 2.0, .align_corners = true}, {x}, "align_corners needs bilinear"},
            {"of nothing", {.scale = 2.0}, {In::normal({1, 2, 0, 3})}, "x [1, 2, 0, 3] must be [N, C, H, W]"},
            {"integers", {.scale = 2.0}, {In::index({2, 3, 4, 4}, 9)}, "x must be floating"},
            {"nothing at all", {.scale = 2.0}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor interpolate(Tensor x, const InterpolateOptions& options) {
    return apply<ops::Interpolate>(options, std::move(x));
}

}  // namespace headroom
