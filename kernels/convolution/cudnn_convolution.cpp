#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr std::int64_t kLeastWork = 1 << 18;
constexpr std::size_t kCounters = std::size_t{64} << 10;
constexpr std::int64_t kVector = 16;  // bytes that a kernel reads at once

// Partial sums of a weight's gradient, in f32: by tiles, of at most so many parts of the depth, as one part for each
// multiprocessor fills a GPU; so many bytes are two tiles of 128 x 128 for each. Large weights are cut into few parts.
constexpr std::int64_t kTile = 64, kMostParts = 128, kPartialSums = std::int64_t{16} << 20, kFewParts = 4;

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
    return text + (relu ? " relu" : "");
}

CudnnConvolution CudnnConvolution::from_text(const std::string& text) {
    CudnnConvolution c;
    std::string dtype;
    int pass = 0;
    std::istringstream in(text);
    in >> pass >> dtype >> std::boolalpha >> c.tf32 >> c.any_order >> c.adds >> c.has_bias >> c.images >> c.groups >>
        c.inputs >> c.outputs;
    c.pass = static_cast<ConvolutionPass>(pass);
    c.dtype = dtype == "f16" ? Dtype::f16 : dtype == "bf16" ? Dtype::bf16 : Dtype::f32;
    for (ConvolutionAxis* const a : {&c.h, &c.w}) {
        char colon = 0;
        in >> a->input >> colon >> a->output >> colon >> a->kernel >> colon >> a->stride >> colon >> a->padding >>
            colon >> a->dilation;
    }
    c.relu = text.ends_with(" relu");
    if (!in || c.text() != text) throw Error(fmt::format("\"{}\" is not a convolution", text));
    return c;
}

std::size_t CudnnConvolution::scratch() const {
    const std::int64_t weights = groups * outputs * inputs * h.kernel * w.kernel * 4;
    const std::int64_t x = images * h.input * w.input * groups * inputs;
    const std::int64_t y = images * h.output * w.output * groups * outputs;
    std::int64_t bytes = padded_copies();
    switch (pass) {
        case ConvolutionPass::forward:
            bytes += kFewParts * weights;
            break;
        case ConvolutionPass::data: {
            const std::int64_t copies = 4 * (x + y);
            bytes += kFewParts * weights;
            if (exact_f32() && static_cast<std::size_t>(copies) < budget) bytes += copies;
            break;
        }
        case ConvolutionPass::weight: {
            const std::int64_t part =
                groups * round_up(outputs, kTile) * round_up(weights / groups / outputs / 4, kTile) * 4;
            bytes += std::max(kFewParts * weights, std::min(kMostParts * part, kPartialSums));
            break;
        }
    }
    return std::min(budget, kCounters + static_cast<std::size_t>(bytes));
}

std::size_t CudnnConvolution::trial_bytes() const {
    if (!relu) return 0;
    return static_cast<std::size_t>(round_up(groups * outputs * static_cast<std::int64_t>(size_of(dtype)), 256));
}

std::int64_t CudnnConvolution::padded_copies() const {
    return padded_bytes(images * h.input * w.input, groups * inputs, dtype) +
           padded_bytes(images * h.output * w.output, groups * outputs, dtype);
}

bool CudnnConvolutionData::aligned() const {
    const auto is_aligned = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % kVector == 0; };
    return is_aligned(x) && is_aligned(weight) && is_aligned(y) && is_aligned(bias) && is_aligned(trial);
}

std::optional<CudnnConvolution> plan_cudnn(const ConvolutionProblem& p, const ComputeOptions& options) {
    const bool weight = p.pass == ConvolutionPass::weight;
    if (options.own_kernels || p.operand == Dtype::f64 || p.work() < kLeastWork) return std::nullopt;
    if (!p.channels_last()) return std::nullopt;
    if (!weight && ((p.beta != 0 && p.beta != 1) || p.written().dtype != p.operand)) return std::nullopt;
    if (p.has_bias && p.bias_step != 1) return std::nullopt;
    CudnnConvolution c{p};
    c.pass = p.pass;
    c.dtype = p.operand;
    c.tf32 = options.tf32 && p.operand == Dtype::f32;
    c.any_order = !options.deterministic && p.pass != ConvolutionPass::forward;
    c.has_bias = p.has_bias && p.pass == ConvolutionPass::forward;
    c.budget = options.scratch_budget;
    const bool whole =
        padded_bytes(1, p.groups * p.inputs, p.operand) == 0 && padded_bytes(1, p.groups * p.outputs, p.operand) == 0;
    c.adds = !weight && p.beta == 1 && !c.exact_f32() && whole;
    c.relu = p.activation == Activation::relu && c.has_bias && is_half(c.dtype) && p.beta == 0;
    c.relu = c.relu && c.trial_bytes() <= c.budget;
    if (!weight && bytes_behind(p, c) > c.budget) return std::nullopt;
    return c;
}

std::optional<CudnnConvolution> plan_cudnn_on(const Stream& stream, const ConvolutionProblem& p) {
    const std::optional<CudnnConvolution> library = plan_cudnn(p, compute_of(stream));
    const auto* dry = std::get_if<DryStream>(&stream);
    if (library && dry && dry->state) dry->state->get<RehearsedConvolutions>().asked.insert(*library);
    return library;
}

std::vector<std::string> rehearsed_convolutions(const DryStream& stream) {
    std::vector<std::string> texts;
    for (const CudnnConvolution& c : stream.state->get<RehearsedConvolutions>().asked) texts.push_back(c.text());
    return texts;
}

std::size_t bytes_behind(const ConvolutionProblem& p, const CudnnConvolution& library) {
    if (p.pass != ConvolutionPass::weight && (p.beta == 0 || library.adds)) return library.trial_bytes();
    return static_cast<std::size_t>(
        round_up(p.written_elements() * static_cast<std::int64_t>(size_of(p.operand)), 256));
}

}  // namespace headroom::kernels
