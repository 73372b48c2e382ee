#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kLeastWork = 1 << 18;
constexpr std::int64_t kWeights = 4;  // partial sums of a weight's gradient, in f32
constexpr std::size_t kCounters = std::size_t{64} << 10;
constexpr std::int64_t kVector = 16;  // bytes of channels that a kernel reads at once

/// Bytes of a copy whose channels are padded; none where they need not be.
std::int64_t padded_bytes(std::int64_t pixels, std::int64_t channels, Dtype dtype) {
    const std::int64_t bytes = channels * static_cast<std::int64_t>(size_of(dtype));
    return bytes % kVector == 0 ? 0 : pixels * round_up(bytes, kVector);
}

}  // namespace

std::string CudnnConvolution::text() const {
    std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {}", static_cast<int>(pass), name(dtype), tf32,
                                   any_order, adds, has_bias, images, groups, inputs, outputs);
    for (const ConvolutionAxis& a : {h, w}) {
        text += fmt::format(" {}:{}:{}:{}:{}:{}", a.input, a.output, a.kernel, a.stride, a.padding, a.dilation);
    }
    return text;
}

std::size_t CudnnConvolution::scratch() const {
    const std::int64_t weights = groups * outputs * inputs * h.kernel * w.kernel * 4;
    const std::int64_t copies = padded_bytes(images * h.input * w.input, groups * inputs, dtype) +
                                padded_bytes(images * h.output * w.output, groups * outputs, dtype);
    return std::min(budget, kCounters + static_cast<std::size_t>(kWeights * weights + copies));
}

std::size_t CudnnConvolution::weight_bytes() const {
    if (pass != ConvolutionPass::weight) return 0;
    const std::int64_t count = groups * outputs * inputs * h.kernel * w.kernel;
    return static_cast<std::size_t>(round_up(count * static_cast<std::int64_t>(size_of(dtype)), 256));
}

std::optional<CudnnConvolution> plan_cudnn(const ConvolutionProblem& p, const ComputeOptions& options) {
    const bool weight = p.pass == ConvolutionPass::weight;
    if (options.own_kernels || p.operand == Dtype::f64 || p.work() < kLeastWork) return std::nullopt;
    if (!p.channels_last()) return std::nullopt;
    if (!weight && ((p.beta != 0 && p.beta != 1) || p.written().dtype != p.operand)) return std::nullopt;
    if (p.pass == ConvolutionPass::data && (p.has_bias || p.activation != Activation::none)) return std::nullopt;
    if (p.has_bias && p.bias_step != 1) return std::nullopt;
    return CudnnConvolution{.pass = p.pass,
                            .dtype = p.operand,
                            .tf32 = options.tf32 && p.operand == Dtype::f32,
                            .any_order = !options.deterministic && p.pass != ConvolutionPass::forward,
                            .adds = !weight && p.beta == 1,
                            .has_bias = p.has_bias,
                            .images = p.images,
                            .groups = p.groups,
                            .inputs = p.inputs,
                            .outputs = p.outputs,
                            .h = p.h,
                            .w = p.w,
                            .budget = options.scratch_budget};
}

std::size_t cudnn_scratch(const std::optional<CudnnConvolution>& library) {
    return library ? library->weight_bytes() + library->scratch() : 0;
}

void append_convolution_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<ConvolutionChoices>().append(path);
}

void load_convolution_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<ConvolutionChoices>().load(path);
}

}  // namespace headroom::kernels
