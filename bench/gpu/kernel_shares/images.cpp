// Kernels of ResNet-50 and U-Net: convolutions, and norms over the batch. Images are channels-last.
#include <fmt/format.h>

#include <headroom/bench/gpu/kernel_shares/bench.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/convolution/convolution.hpp>

namespace headroom::shares {

using namespace kernels;

namespace {

struct Layer {
    const char* model;
    std::int64_t images, inputs, outputs, height, width, kernel, stride;
};

/// The three passes. Each array is read or written once.
void passes_of(Bench& bench, const Layer& layer, Dtype dtype) {
    const ConvolutionSteps steps{.stride = layer.stride, .padding = layer.kernel / 2};
    const View x = bench.images(dtype, {layer.images, layer.inputs, layer.height, layer.width}),
               weight = bench.images(dtype, {layer.outputs, layer.inputs, layer.kernel, layer.kernel}),
               y = bench.images(dtype, convolved_shape(x.shape, weight.shape, steps));
    const double operations =
        2 * static_cast<double>(y.numel()) * static_cast<double>(layer.inputs * layer.kernel * layer.kernel);
    for (const auto& [pass, text] : {std::pair{ConvolutionPass::forward, ""},
                                     {ConvolutionPass::data, " data"},
                                     {ConvolutionPass::weight, " weight"}}) {
        if (pass == ConvolutionPass::data && layer.inputs < 8) continue;  // of images: nobody asks for it
        bench.measure(fmt::format("convolution{} {} {} x {}, {} to {}, {} x {} x {} {}", text, layer.model,
                                  layer.kernel, layer.kernel, layer.inputs, layer.outputs, layer.images, layer.height,
                                  layer.width, name(dtype)),
                      bytes_of(x, weight, y), operations,
                      planned<ConvolutionPlan>(
                          bench, Convolution{.x = x, .weight = weight, .y = y, .steps = steps, .pass = pass}));
    }
    bench.forget();
}

/// Forward: the statistics, then y behind a ReLU, without and with a residual. Backward: both passes over x and dy.
void norms_of(Bench& bench, const char* model, const Shape& shape, Dtype dtype) {
    const View x = bench.images(dtype, shape), y = bench.images(dtype, shape), residual = bench.images(dtype, shape),
               dx = bench.images(dtype, shape), mean = bench.array(Dtype::f32, {shape[1]}),
               variance = bench.array(Dtype::f32, {shape[1]}), weight = bench.array(Dtype::f32, {shape[1]}),
               bias = bench.array(Dtype::f32, {shape[1]});
    const ChannelNorm norm{.mean = mean, .variance = variance, .weight = &weight, .bias = &bias, .relu = true};
    const ChannelNormGradients to{.x = &dx, .weight = &weight, .bias = &bias};
    CudaStream& stream = bench.stream();
    const double size = bytes_of(x);
    const std::string what = fmt::format("{} {} {}", model, shape.to_string(), name(dtype));
    bench.measure("channel_norm moments " + what, size, 0, planned<ChannelMomentsPlan>(bench, x, mean, variance));
    bench.measure("channel_norm " + what, 2 * size, 0, [&] { channel_norm(stream, x, norm, nullptr, y); });
    bench.measure("channel_norm residual " + what, 3 * size, 0, [&] { channel_norm(stream, x, norm, &residual, y); });
    bench.measure("channel_norm gradient " + what, 5 * size, 0,
                  planned<ChannelNormGradientPlan>(bench, ChannelNormInputs{.x = &x, .dy = y}, norm, to));
    bench.forget();
}

}  // namespace

void convolutions(Bench& bench, const Sizes& sizes, Dtype dtype) {
    const std::int64_t n = sizes.images, side = sizes.side, c = sizes.channels;
    passes_of(bench, {"ResNet", n, c, c, side, side, 3, 1}, dtype);
    passes_of(bench, {"ResNet", n, c, 4 * c, side, side, 1, 1}, dtype);
    passes_of(bench, {"ResNet", n, 4 * c, 4 * c, side / 4, side / 4, 3, 1}, dtype);
    passes_of(bench, {"ResNet", n, 4 * c, 8 * c, side, side, 1, 2}, dtype);
    passes_of(bench, {"ResNet", n, 3, c, 4 * side, 4 * side, 7, 2}, dtype);
    passes_of(bench, {"U-Net", 1, c, c, sizes.height, sizes.image_width, 3, 1}, dtype);
    passes_of(bench, {"U-Net", 1, 4 * c, 8 * c, sizes.height / 8, sizes.image_width / 8, 3, 1}, dtype);
}

void channel_norms(Bench& bench, const Sizes& sizes, Dtype dtype) {
    norms_of(bench, "ResNet", {sizes.images, 4 * sizes.channels, sizes.side, sizes.side}, dtype);
    norms_of(bench, "ResNet", {sizes.images, sizes.channels, 2 * sizes.side, 2 * sizes.side}, dtype);
    norms_of(bench, "U-Net", {1, sizes.channels, sizes.height, sizes.image_width}, dtype);
}

}  // namespace headroom::shares
