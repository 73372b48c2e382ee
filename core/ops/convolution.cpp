#include <headroom/core/ops/convolution.hpp>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/reduce/reduce.hpp>

namespace headroom {

namespace ops {

namespace {

using kernels::Convolution;
using kernels::ConvolutionPass;

/// Of neighbouring channels, as kernels are fast with.
Array images(Exec& exec, const Shape& shape, Dtype dtype) {
    return exec.empty_like(shape, kernels::dense_strides(shape, MemoryFormat::channels_last), dtype);
}

/// The same convolution, with what another pass writes.
void run(Exec& exec, Convolution convolution, ConvolutionPass pass, float beta) {
    convolution.pass = pass;
    convolution.beta = beta;
    exec.run<kernels::ConvolutionPlan>(convolution);
}

/// Of weight and bias; `dy`: the gradient of the op's result, which is the convolution's y or, of a transposed one, x.
void parameter_gradients(Exec& exec, Convolution convolution, const View& dy, GradSink& sink) {
    JointTargets targets(exec, sink);
    const JointTarget &dweight = targets.ask(1), &dbias = targets.ask(2);
    if (dbias) {
        View channels = dbias.view;
        for (int axis = 0; axis < 2; ++axis) channels.shape.push_back(1), channels.strides.push_back(1);
        exec.run<kernels::SumPlan>(dy, 1.0, channels, dbias.beta);
    }
    if (dweight) {
        convolution.weight = dweight.view;
        run(exec, convolution, ConvolutionPass::weight, dweight.beta);
    }
}

void check_inputs(const char* op, const Array& x, const Array& weight, const Array& bias, const char* form) {
    check_one_dtype(op, {{"x", x}, {"weight", weight}, {"bias", bias, kOptional}});
    check_form(op, {"x", x}, x.rank() == 4, "[n, in, h, w]");
    check_form(op, {"weight", weight}, weight.rank() == 4, form);
}

/// `Options`: Conv2dOptions or ConvTranspose2dOptions.
template <class Options>
kernels::ConvolutionSteps steps_of(const Options& options) {
    return {options.stride, options.padding, options.dilation, options.groups};
}

/// dy where y is above 0, in dy's storage if nothing else holds it.
Array through_relu(Exec& exec, const Array& y, Array dy) {
    const bool reuse = dy.buffer.unique() && dy.dtype == y.dtype && same_places(dy.geometry, y.geometry);
    Array result = reuse ? dy : exec.empty_like(y, dy.dtype);
    exec.launch([&](auto& stream) {
        kernels::map_backward(stream, kernels::Relu{}, y.view(), dy.view(), 0.0f, result.view());
    });
    return result;
}

/// Errors: ShapeError, besides those of conv2d.
Shape transposed_shape(const ConvTranspose2dOptions& options, const Shape& x, const Shape& weight) {
    constexpr const char* op = ConvTranspose2d::info.name;
    if (options.groups < 1 || x[1] % options.groups != 0)
        throw ShapeError(
            fmt::format("{}: {} groups do not divide the channels of x {}", op, options.groups, x.to_string()));
    if (weight[0] != x[1])
        throw ShapeError(fmt::format("{}: weight {} must be [{}, out / groups, kh, kw] to fit x {}", op,
                                     weight.to_string(), x[1], x.to_string()));
    Shape y{x[0], weight[1] * options.groups};
    for (std::size_t i = 0; i < 2; ++i) {
        const int axis = 2 + static_cast<int>(i);
        const std::int64_t rest = options.output_padding[i];
        if (rest < 0 || (rest != 0 && rest >= options.stride[i]))
            throw ShapeError(fmt::format("{}: output_padding must be at least 0 and below the stride {}, got {}", op,
                                         options.stride[i], rest));
        y.push_back((x[axis] - 1) * options.stride[i] - 2 * options.padding[i] +
                    options.dilation[i] * (weight[axis] - 1) + rest + 1);
        if (x[axis] < 1 || y.back() < 1)
            throw ShapeError(fmt::format("{}: x {} and weight {} give {} elements along axis {}", op, x.to_string(),
                                         weight.to_string(), y.back(), axis));
    }
    as_op(op, [&] { return kernels::convolved_shape(y, weight, steps_of(options)); });
    return y;
}

}  // namespace

OpResult<Conv2d::Saved, Array> Conv2d::forward(Exec& exec, const Attrs& attrs, const Array& x, const Array& weight,
                                               const Array& bias) {
    check_inputs("conv2d", x, weight, bias, "[out, in / groups, kh, kw]");
    check_shape("conv2d", {"bias", bias}, {weight.size(0)}, {"weight", weight});
    const Shape shape =
        as_op("conv2d", [&] { return kernels::convolved_shape(x.shape(), weight.shape(), steps_of(attrs)); });
    Array y = images(exec, shape, x.dtype);
    exec.run<kernels::ConvolutionPlan>(
        Convolution{.x = x.view(),
                    .weight = weight.view(),
                    .y = y.view(),
                    .steps = steps_of(attrs),
                    .bias = bias.defined() ? bias.view() : View{},
                    .activation = attrs.relu ? kernels::Activation::relu : kernels::Activation::none});
    return {{x, weight, attrs.relu ? y : Array{}}, y};
}

// x's gradient comes last: it has x's shape, and takes over x's storage where nothing else needs that.
void Conv2d::backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink) {
    if (attrs.relu) {
        dy = through_relu(exec, saved.y, std::move(dy));
        saved.y = {};
    }
    Convolution convolution{
        .x = saved.x.view(), .weight = saved.weight.view(), .y = dy.view(), .steps = steps_of(attrs)};
    parameter_gradients(exec, convolution, dy.view(), sink);
    if (const auto dx = sink.destination(0, saved.x)) {
        convolution.x = dx.view();
        run(exec, convolution, ConvolutionPass::data, dx.beta);
    }
}

OpResult<ConvTranspose2d::Saved, Array> ConvTranspose2d::forward(Exec& exec, const Attrs& attrs, const Array& x,
                                                                 const Array& weight, const Array& bias) {
    check_inputs("conv_transpose2d", x, weight, bias, "[in, out / groups, kh, kw]");
    const Shape shape = transposed_shape(attrs, x.shape(), weight.shape());
    check_shape("conv_transpose2d", {"bias", bias}, {shape[1]}, {"weight", weight});
    Array y = images(exec, shape, x.dtype);
    exec.run<kernels::ConvolutionPlan>(Convolution{.x = y.view(),
                                                   .weight = weight.view(),
                                                   .y = x.view(),
                                                   .steps = steps_of(attrs),
                                                   .pass = ConvolutionPass::data,
                                                   .bias = bias.defined() ? bias.view() : View{}});
    return {{x, weight}, std::move(y)};
}

void ConvTranspose2d::backward(Exec& exec, const Attrs& attrs, Saved& saved, Array dy, GradSink sink) {
    Convolution convolution{
        .x = dy.view(), .weight = saved.weight.view(), .y = saved.x.view(), .steps = steps_of(attrs)};
    parameter_gradients(exec, convolution, dy.view(), sink);
    if (const auto dx = sink.destination(0, saved.x)) {
        convolution.y = dx.view();
        run(exec, convolution, ConvolutionPass::forward, dx.beta);
    }
}

Operations Conv2d::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape> made) {
    const Shape& weight = inputs[1];
    return Operations::of_product(2 * elements_of(made[0]) * static_cast<double>(weight[1] * weight[2] * weight[3]));
}

std::vector<Sample<Conv2d::Attrs>> Conv2d::samples() {
    using I = SampleInput;
    return {
        {"padded", {.padding = 1}, {I::normal({2, 2, 4, 3}), I::normal({3, 2, 3, 3}), I::normal({3})}},
        {"no bias", {.stride = {2, 1}}, {I::normal({1, 2, 5, 4}), I::normal({2, 2, 2, 1}), I::none()}},
        {"1x1", {}, {I::normal({2, 3, 2, 2}), I::normal({4, 3, 1, 1}), I::normal({4})}},
        {"dilated", {.dilation = {2, 3}}, {I::normal({1, 1, 5, 4}), I::normal({2, 1, 2, 2}), I::none()}},
        {"groups", {.groups = 2}, {I::normal({2, 4, 3, 3}), I::normal({6, 2, 2, 2}), I::normal({6})}},
        {"depthwise",
         {.stride = 2, .padding = 1, .groups = 3},
         {I::normal({2, 3, 4, 4}), I::normal({3, 1, 3, 3}), I::normal({3})}},
        {"relu", {.relu = true}, {I::halves({2, 3, 4, 3}), I::halves({3, 3, 3, 1}), I::halves({3})}},
        {"relu without bias",
         {.stride = 2, .relu = true},
         {I::halves({1, 3, 5, 4}), I::halves({4, 3, 1, 1}), I::none()}},
        {"no images", {}, {I::normal({0, 2, 3, 3}), I::normal({3, 2, 2, 2}), I::normal({3})}},
        {"no channels", {}, {I::normal({2, 0, 3, 3}), I::normal({3, 0, 2, 2}), I::normal({3})}},
        {"rank", {}, {I::normal({2, 3, 3}), I::normal({3, 2, 2, 2}), I::none()}, "conv2d: x [2, 3, 3] must be [n, in"},
        {"weight's rank", {}, {I::normal({1, 2, 3, 3}), I::normal({3, 2, 2}), I::none()}, "conv2d: weight [3, 2, 2]"},
        {"large kernel",
         {.padding = {1, 0}},
         {I::normal({1, 2, 3, 3}), I::normal({3, 2, 3, 4}), I::none()},
         "conv2d: a kernel of width 4 with dilation 1 does not fit width 3 padded by 0"},
        {"uneven groups",
         {.groups = 2},
         {I::normal({1, 3, 3, 3}), I::normal({2, 1, 2, 2}), I::none()},
         "conv2d: 2 groups do not divide the channels of x [1, 3, 3, 3]"},
        {"channels",
         {},
         {I::normal({1, 3, 4, 4}), I::normal({2, 2, 2, 2}), I::none()},
         "conv2d: x [1, 3, 4, 4] [n, c, h, w] has 3 channels, but weight [2, 2, 2, 2] takes 2"},
        {"channels last",
         {},
         {I::normal({2, 8, 8, 3}), I::normal({8, 3, 3, 3}), I::none()},
         "takes 3; if channels come last, use x.permute({0, 3, 1, 2})"},
        {"stride",
         {.stride = {0, 1}},
         {I::normal({1, 2, 3, 3}), I::normal({2, 2, 2, 2}), I::none()},
         "conv2d: along the height, stride and dilation must be at least 1"},
        {"bias",
         {},
         {I::normal({1, 2, 3, 3}), I::normal({3, 2, 2, 2}), I::normal({2})},
         "conv2d: bias [2] must be [3]"},
        {"integers", {}, {I::index({1, 2, 3, 3}, 5), I::normal({3, 2, 2, 2}), I::none()}, "conv2d: x must be floating"},
    };
}

Operations ConvTranspose2d::operations(const Attrs&, std::span<const Shape> inputs, std::span<const Shape>) {
    const Shape& weight = inputs[1];
    return Operations::of_product(2 * elements_of(inputs[0]) * static_cast<double>(weight[1] * weight[2] * weight[3]));
}

std::vector<Sample<ConvTranspose2d::Attrs>> ConvTranspose2d::samples() {
    using I = SampleInput;
    return {
        {"up", {.stride = 2}, {I::normal({2, 3, 2, 3}), I::normal({3, 2, 2, 2}), I::normal({2})}},
        {"padded",
         {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}},
         {I::normal({1, 2, 3, 2}), I::normal({2, 3, 3, 2}), I::none()}},
        {"groups",
         {.dilation = {2, 1}, .groups = 2},
         {I::normal({2, 4, 2, 2}), I::normal({4, 3, 2, 2}), I::normal({6})}},
        {"no images", {}, {I::normal({0, 2, 3, 3}), I::normal({2, 3, 2, 2}), I::normal({3})}},
        {"rank",
         {},
         {I::normal({2, 3}), I::normal({3, 2, 2, 2}), I::none()},
         "conv_transpose2d: x [2, 3] must be [n, in"},
        {"sizes",
         {},
         {I::normal({1, 3, 2, 2}), I::normal({2, 3, 2, 2}), I::none()},
         "conv_transpose2d: weight [2, 3, 2, 2] must be [3, out / groups, kh, kw] to fit x"},
        {"uneven groups",
         {.groups = 2},
         {I::normal({1, 3, 2, 2}), I::normal({3, 3, 2, 2}), I::none()},
         "conv_transpose2d: 2 groups do not divide the channels of x"},
        {"output padding",
         {.stride = 2, .output_padding = {0, 2}},
         {I::normal({1, 2, 2, 2}), I::normal({2, 3, 2, 2}), I::none()},
         "conv_transpose2d: output_padding must be at least 0 and below the stride 2, got 2"},
        {"padding",
         {.padding = 2},
         {I::normal({1, 2, 2, 2}), I::normal({2, 3, 2, 2}), I::none()},
         "conv_transpose2d: x [1, 2, 2, 2] and weight [2, 3, 2, 2] give -1 elements along axis 2"},
        {"stride",
         {.stride = {1, 0}},
         {I::normal({1, 2, 2, 2}), I::normal({2, 3, 2, 2}), I::none()},
         "conv_transpose2d: along the width, stride and dilation must be at least 1"},
    };
}

}  // namespace ops

namespace {

/// x with neighbouring channels; what is no image is for the op to refuse.
Tensor as_images(Tensor x) {
    return x.defined() && x.rank() == 4 ? contiguous(std::move(x), MemoryFormat::channels_last) : std::move(x);
}

}  // namespace

Tensor conv2d(Tensor x, Tensor weight, Tensor bias, const Conv2dOptions& options) {
    return apply<ops::Conv2d>(options, as_images(std::move(x)), std::move(weight), std::move(bias));
}

Tensor conv1d(Tensor x, Tensor weight, Tensor bias, const Conv1dOptions& options) {
    return as_op("conv1d", [&] {
        check_defined("conv1d", {{"x", x}, {"weight", weight}});
        if (x.rank() != 3 || weight.rank() != 3)
            throw ShapeError(fmt::format("conv1d: x {} must be [n, in, l] and weight {} [out, in / groups, k]",
                                         x.shape().to_string(), weight.shape().to_string()));
        if (const std::int64_t wanted = weight.size(1) * options.groups; options.groups >= 1 && wanted != x.size(1)) {
            const char* last = wanted == x.size(2) ? "; if channels come last, use x.transpose(1, 2)" : "";
            throw ShapeError(fmt::format("conv1d: x {} [n, c, l] has {} channels, but weight {} takes {}{}{}",
                                         x.shape().to_string(), x.size(1), weight.shape().to_string(), wanted,
                                         options.groups == 1 ? "" : fmt::format(" in {} groups", options.groups),
                                         last));
        }
        const Conv2dOptions of_rows{{1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups};
        return conv2d(x.unsqueeze(2), weight.unsqueeze(2), std::move(bias), of_rows).squeeze(2);
    });
}

Tensor conv_transpose2d(Tensor x, Tensor weight, Tensor bias, const ConvTranspose2dOptions& options) {
    return apply<ops::ConvTranspose2d>(options, as_images(std::move(x)), std::move(weight), std::move(bias));
}

}  // namespace headroom
