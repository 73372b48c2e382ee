#pragma once
// The largest element, or the average, over windows of images. For the average over whole axes of any array see `mean`.
//
//     Tensor y = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});   // x [8, 64, 112, 112]
//     Tensor z = avg_pool2d(x, {.kernel = 2});
//     Tensor features = global_avg_pool2d(x).reshape({8, 64});                             // of [8, 64, 1, 1]
//
// x [N, C, H, W] of any floating dtype. Results have its dtype, and are fast if channels are adjacent in memory. Pairs
// are (rows, columns). Window o of an axis begins at o stride - padding. The number of windows is PyTorch's: all that
// fit; with `ceil_mode` also one that reaches beyond the end, unless it would begin after the input.
#include <cstdint>

#include <headroom/core/apply.hpp>

namespace headroom {

struct MaxPool2dOptions {
    IntPair kernel = 0;
    IntPair stride = 0;   ///< 0: the kernel's size
    IntPair padding = 0;  ///< positions on both sides, which are never chosen
    IntPair dilation = 1;
    bool ceil_mode = false;
};

struct AvgPool2dOptions {
    IntPair kernel = 0;
    IntPair stride = 0;   ///< 0: the kernel's size
    IntPair padding = 0;  ///< zeros on both sides
    bool ceil_mode = false;
    /// Divide sums by the window's positions including these zeros; false: excluding them.
    bool count_include_pad = true;
    std::int64_t divisor_override = 0;  ///< divide sums by this; 0: by the number of positions
};

namespace ops {

struct MaxPool2d {
    static constexpr OpInfo info{.name = "max_pool2d"};
    using Attrs = MaxPool2dOptions;
    struct Saved {
        Array place;  ///< of each maximum in its window: one byte, or four for windows of more than 256 elements
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct AvgPool2d {
    static constexpr OpInfo info{.name = "avg_pool2d"};
    using Attrs = AvgPool2dOptions;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct AdaptiveAvgPool2d {
    static constexpr OpInfo info{.name = "adaptive_avg_pool2d"};
    struct Attrs {
        IntPair size;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// The largest element of each window, NaN if one is NaN. The first of equal elements gets the gradient; of several
/// NaN, the last. A ReLU after the pool gives the same values as one before it, and keeps the small result for backward
/// instead of the large one. Errors: ShapeError if no window fits; DtypeError; Error for options out of range, for a
/// padding of more than half of the kernel, and for windows of more than 2^24 elements.
Tensor max_pool2d(Tensor x, const MaxPool2dOptions& options);

/// The sum over each window, divided according to the options. Computed in f32 (f64 for f64). Errors: as max_pool2d.
Tensor avg_pool2d(Tensor x, const AvgPool2dOptions& options);

/// [N, C, size[0], size[1]]: averages over positions [floor(o H / size), ceil((o + 1) H / size)) of each axis. Computed
/// in f32 (f64 for f64). Errors: ShapeError, also for images or a result without elements; DtypeError.
Tensor adaptive_avg_pool2d(Tensor x, IntPair size);

/// The average of each channel of each image, [N, C, 1, 1].
Tensor global_avg_pool2d(Tensor x);

}  // namespace headroom
