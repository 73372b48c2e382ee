#pragma once
// Convolutions of images and sequences. A 1 x 1 kernel runs as a `linear` over the channels of each pixel. Strides,
// dilations and groups (down to depthwise) follow PyTorch.
//
//     Tensor y = conv2d(x, weight, bias, {.padding = 1});         // x [8, 64, 56, 56], weight [128, 64, 3, 3]
//     Tensor h = conv2d(x, weight, bias, {.padding = 1, .relu = true});
//     Tensor z = conv2d(x, weight, {}, {.stride = 2, .groups = 64});  // weight [64, 1, 3, 3]: depthwise
//     Tensor up = conv_transpose2d(y, kernel, {}, {.stride = 2});     // kernel [128, 64, 2, 2]: twice the size

#include <headroom/core/apply.hpp>
#include <headroom/kernels/convolution/convolution.hpp>

namespace headroom {

/// Pairs are (height, width).
struct Conv2dOptions {
    IntPair stride = 1, padding = 0, dilation = 1;
    std::int64_t groups = 1;
    bool relu = false;  ///< applied after the bias; backward reads its mask from the result
};

struct Conv1dOptions {
    std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

struct ConvTranspose2dOptions {
    IntPair stride = 1, padding = 0, output_padding = 0, dilation = 1;
    std::int64_t groups = 1;
};

namespace ops {

struct Conv2d {
    static constexpr OpInfo info{.name = "conv2d", .cost = Cost::expensive, .precision = Precision::half};
    using Attrs = Conv2dOptions;
    struct Saved {
        Array x;
        Array weight;
        Array y;  ///< with ReLU
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                          const Array& bias);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

struct ConvTranspose2d {
    static constexpr OpInfo info{.name = "conv_transpose2d", .cost = Cost::expensive, .precision = Precision::half};
    using Attrs = ConvTranspose2dOptions;
    struct Saved {
        Array x;
        Array weight;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                          const Array& bias);
    static void backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink);
    static Operations operations(const Attrs& attrs, std::span<const Shape> inputs, std::span<const Shape> made);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x [n, in, h, w], weight [out, in / groups, kh, kw], bias [out] or undefined -> [n, out, oh, ow] with oh = (h + 2
/// padding - dilation (kh - 1) - 1) / stride + 1, rounded down. Floating dtypes; mixed ones are cast to the widest,
/// under `Autocast` to the half dtype. The result is channels-last; an x in another order is copied, and the copy is
/// recorded. With `relu` the result has the bits of relu(conv2d(...)). Errors: ShapeError, also for a kernel larger
/// than the padded x and for groups that do not divide the channels; DtypeError.
Tensor conv2d(Tensor x, Tensor weight, Tensor bias = {}, const Conv2dOptions& options = {});

/// The same along one axis: x [n, in, l], weight [out, in / groups, k] -> [n, out, ol].
Tensor conv1d(Tensor x, Tensor weight, Tensor bias = {}, const Conv1dOptions& options = {});

/// Transposed convolution, the gradient of conv2d with respect to its x: x [n, in, h, w], weight [in, out / groups, kh,
/// kw], bias [out] or undefined -> [n, out, oh, ow] with oh = (h - 1) stride - 2 padding + dilation (kh - 1) +
/// output_padding + 1. Several sizes oh are mapped to h by conv2d; output_padding, which must be below the stride,
/// selects one of them. Dtypes and errors as conv2d.
Tensor conv_transpose2d(Tensor x, Tensor weight, Tensor bias = {}, const ConvTranspose2dOptions& options = {});

}  // namespace headroom
