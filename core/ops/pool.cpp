#include <headroom/core/ops/pool.hpp>

#include <limits>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/internal/images.hpp>
#include <headroom/kernels/pool/max_pool.hpp>

namespace headroom {

namespace ops {

namespace {

using kernels::AxisMap, kernels::PoolAxis;

/// Windows along axis 2 + i of x. Errors: as `max_pool2d` has them.
template <class Options>
PoolAxis pool_axis(const char* op, const Options& options, std::size_t i) {
    constexpr double most = std::numeric_limits<std::int32_t>::max();
    PoolAxis axis{.kernel = options.kernel[i], .stride = options.stride[i], .padding = options.padding[i]};
    if constexpr (requires { options.dilation; }) axis.dilation = options.dilation[i];
    if (axis.stride == 0) axis.stride = axis.kernel;
    check_range(op, "kernel", static_cast<double>(axis.kernel), 1, most);
    check_range(op, "stride", static_cast<double>(axis.stride), 1, most);
    check_range(op, "dilation", static_cast<double>(axis.dilation), 1, most);
    if (axis.padding >= 0 && axis.padding <= axis.kernel / 2) return axis;
    throw Error(fmt::format("{}: padding must be between 0 and half the kernel size {}, got {}", op, axis.kernel,
                            axis.padding));
}

/// The number of windows.
std::int64_t windows(const char* op, const Array& x, int axis, const PoolAxis& pool, bool ceil_mode) {
    const std::int64_t reach = (pool.kernel - 1) * pool.dilation + 1, size = x.size(axis);
    const std::int64_t left = size + 2 * pool.padding - reach + (ceil_mode ? pool.stride - 1 : 0);
    if (left < 0) {
        throw ShapeError(fmt::format("{}: the kernel spans {} {}, more than x {} with a padding of {}", op, reach,
                                     axis == 2 ? "rows" : "columns", x.shape().to_string(), pool.padding));
    }
    const std::int64_t count = left / pool.stride + 1;
    return ceil_mode && (count - 1) * pool.stride >= size + pool.padding ? count - 1 : count;
}

kernels::MaxPool max_pool_of(const MaxPool2dOptions& options) {
    return {pool_axis("max_pool2d", options, 0), pool_axis("max_pool2d", options, 1)};
}

}  // namespace

OpResult<MaxPool2d::Saved, Array> MaxPool2d::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_images("max_pool2d", x);
    const kernels::MaxPool pool = max_pool_of(attrs);
    const std::int64_t elements = pool.rows.kernel * pool.columns.kernel;
    check_range("max_pool2d", "the number of a window's elements", static_cast<double>(elements), 1, 1 << 24);
    const Shape shape{x.size(0), x.size(1), windows("max_pool2d", x, 2, pool.rows, attrs.ceil_mode),
                      windows("max_pool2d", x, 3, pool.columns, attrs.ceil_mode)};
    Array y = exec.empty_like(shape, x.strides(), x.dtype);
    Array place = exec.empty_like(y, elements <= 256 ? Dtype::u8 : Dtype::i32);
    exec.launch([&](auto& stream) { kernels::max_pool(stream, x.view(), pool, y.view(), place.view()); });
    return {{std::move(place)}, std::move(y)};
}

void MaxPool2d::backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink) {
    if (const auto dx = sink.destination(0)) {
        exec.launch([&](auto& stream) {
            kernels::max_pool_gradient(stream, dy.view(), saved.place.view(), max_pool_of(attrs), dx.beta, dx.view());
        });
    }
}

namespace {

ImageMaps maps_of(const AvgPool2dOptions& options, const Shape& x, const Shape& y) {
    const auto map = [&](std::size_t i) {
        const PoolAxis axis = pool_axis("avg_pool2d", options, i);
        const std::int64_t divisor = options.divisor_override == 0 ? 0 : i == 0 ? options.divisor_override : 1;
        const int number = static_cast<int>(i) + 2;
        return AxisMap::window(x[number], y[number], axis.kernel, axis.stride, axis.padding, options.count_include_pad,
                               divisor);
    };
    return {map(0), map(1)};
}

ImageMaps adaptive_maps(const Shape& x, IntPair size) {
    return {AxisMap::adaptive(x[2], size[0]), AxisMap::adaptive(x[3], size[1])};
}

}  // namespace

OpResult<AvgPool2d::Saved, Array> AvgPool2d::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_images("avg_pool2d", x);
    constexpr double most = std::numeric_limits<std::int32_t>::max();
    check_range("avg_pool2d", "divisor_override", static_cast<double>(attrs.divisor_override), 0, most);
    Shape shape = x.shape();
    for (const int axis : {2, 3}) {
        const PoolAxis pool = pool_axis("avg_pool2d", attrs, static_cast<std::size_t>(axis - 2));
        shape[axis] = windows("avg_pool2d", x, axis, pool, attrs.ceil_mode);
    }
    return {{}, resampled(exec, x, maps_of(attrs, x.shape(), shape))};
}

void AvgPool2d::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    give_resampled(exec, dy, maps_of(attrs, sink.shape(0), dy.shape()), sink);
}

OpResult<AdaptiveAvgPool2d::Saved, Array> AdaptiveAvgPool2d::forward(Exec& exec, const Attrs& attrs, const Array& x) {
    check_images("adaptive_avg_pool2d", x);
    if (attrs.size[0] < 1 || attrs.size[1] < 1) {
        throw ShapeError(fmt::format("adaptive_avg_pool2d: the result must have rows and columns, got {} x {}",
                                     attrs.size[0], attrs.size[1]));
    }
    return {{}, resampled(exec, x, adaptive_maps(x.shape(), attrs.size))};
}

void AdaptiveAvgPool2d::backward(Exec& exec, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
    give_resampled(exec, dy, adaptive_maps(sink.shape(0), attrs.size), sink);
}

std::vector<Sample<MaxPool2d::Attrs>> MaxPool2d::samples() {
    using In = SampleInput;
    const In x = In::distinct({2, 3, 4, 6});
    return {
        {"windows side by side", {.kernel = {2, 3}}, {x}},
        {"windows that overlap", {.kernel = 3, .stride = 2, .padding = 1}, {In::distinct({1, 8, 5, 4})}},
        {"dilated", {.kernel = 2, .stride = {1, 2}, .dilation = {2, 3}}, {x}},
        {"one more window", {.kernel = 2, .ceil_mode = true}, {In::distinct({1, 2, 5, 3})}},
        {"places of four bytes", {.kernel = {2, 200}, .stride = 1, .padding = {1, 100}}, {In::distinct({1, 1, 2, 3})}},
        {"no images", {.kernel = 2}, {In::distinct({0, 3, 4, 4})}},
        {"no kernel", {}, {x}, "kernel must be in [1, "},
        {"negative stride", {.kernel = 2, .stride = {2, -1}}, {x}, "stride must be in [1, "},
        {"no dilation", {.kernel = 2, .dilation = {0, 1}}, {x}, "dilation must be in [1, "},
        {"too much padding",
         {.kernel = 3, .padding = {1, 2}},
         {x},
         "padding must be between 0 and half the kernel size 3, got 2"},
        {"negative padding", {.kernel = 3, .padding = {-1, 0}}, {x}, "got -1"},
        {"more than the image",
         {.kernel = 3, .dilation = {2, 1}},
         {x},
         "the kernel spans 5 rows, more than x [2, 3, 4, 6] with a padding of 0"},
        {"many elements", {.kernel = 5000}, {x}, "the number of a window's elements must be in [1, 16777216]"},
        {"no rows", {.kernel = 1}, {In::distinct({2, 3, 0, 4})}, "x [2, 3, 0, 4] must be [N, C, H, W]"},
        {"one image", {.kernel = 2}, {In::distinct({3, 4, 4})}, "x [3, 4, 4] must be [N, C, H, W]"},
        {"integers", {.kernel = 2}, {In::index({2, 3, 4, 4}, 9)}, "x must be floating"},
        {"nothing", {.kernel = 2}, {In::none()}, "undefined"}};
}

std::vector<Sample<AvgPool2d::Attrs>> AvgPool2d::samples() {
    using In = SampleInput;
    const In x = In::normal({2, 3, 4, 6});
    return {
        {"windows side by side", {.kernel = {2, 3}}, {x}},
        {"windows that overlap", {.kernel = 3, .stride = 2, .padding = 1}, {In::normal({1, 8, 5, 4})}},
        {"padding not counted", {.kernel = {3, 2}, .stride = {1, 2}, .padding = 1, .count_include_pad = false}, {x}},
        {"one more window", {.kernel = {3, 2}, .padding = {1, 0}, .ceil_mode = true}, {In::normal({1, 2, 6, 5})}},
        {"another divisor", {.kernel = 2, .divisor_override = 3}, {x}},
        {"no images", {.kernel = 2}, {In::normal({0, 3, 4, 4})}},
        {"no kernel", {}, {x}, "kernel must be in [1, "},
        {"negative divisor", {.kernel = 2, .divisor_override = -1}, {x}, "divisor_override must be in [0, "},
        {"too much padding", {.kernel = 2, .padding = {0, 2}}, {x}, "half the kernel size 2, got 2"},
        {"more than the image", {.kernel = {2, 7}}, {x}, "the kernel spans 7 columns, more than x [2, 3, 4, 6]"},
        {"one image", {.kernel = 2}, {In::normal({3, 4, 4})}, "x [3, 4, 4] must be [N, C, H, W]"},
        {"integers", {.kernel = 2}, {In::index({2, 3, 4, 4}, 9)}, "x must be floating"},
        {"nothing", {.kernel = 2}, {In::none()}, "undefined"}};
}

std::vector<Sample<AdaptiveAvgPool2d::Attrs>> AdaptiveAvgPool2d::samples() {
    using In = SampleInput;
    return {{"fewer", {{2, 3}}, {In::normal({2, 8, 5, 4})}},
            {"one", {{1, 1}}, {In::normal({2, 3, 4, 6})}},
            {"more", {{5, 3}}, {In::normal({1, 2, 3, 3})}},
            {"no images", {{2, 2}}, {In::normal({0, 3, 4, 4})}},
            {"to nothing", {{2, 0}}, {In::normal({1, 2, 3, 3})}, "the result must have rows and columns, got 2 x 0"},
            {"of nothing", {{2, 2}}, {In::normal({1, 2, 3, 0})}, "x [1, 2, 3, 0] must be [N, C, H, W]"},
            {"integers", {{2, 2}}, {In::index({2, 3, 4, 4}, 9)}, "x must be floating"},
            {"nothing at all", {{2, 2}}, {In::none()}, "undefined"}};
}

}  // namespace ops

Tensor max_pool2d(Tensor x, const MaxPool2dOptions& options) { return apply<ops::MaxPool2d>(options, std::move(x)); }

Tensor avg_pool2d(Tensor x, const AvgPool2dOptions& options) { return apply<ops::AvgPool2d>(options, std::move(x)); }

Tensor adaptive_avg_pool2d(Tensor x, IntPair size) { return apply<ops::AdaptiveAvgPool2d>({size}, std::move(x)); }

Tensor global_avg_pool2d(Tensor x) {
    return as_op("global_avg_pool2d", [&] { return adaptive_avg_pool2d(std::move(x), {1, 1}); });
}

}  // namespace headroom
