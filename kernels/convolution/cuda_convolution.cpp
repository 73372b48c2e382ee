// Convolutions on a GPU by cuDNN, where it can be asked.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

namespace {

CudnnCalls<CudnnConvolutions>& calls_of(CudaStream& stream) {
    return stream.state->get<CudnnCalls<CudnnConvolutions>>();
}

/// Whether y is what our ReLU makes of sums with a bias of NaN, infinity and -infinity in turn: its first pixel is
/// looked at. Where the sums are not finite themselves, the answer may be no.
bool leaves_nan(CudaStream& stream, CudnnConvolutions& cudnn, const CudnnConvolution& c, CudnnConvolutionData data,
                std::byte* scratch) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr std::array<double, 3> biases{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
    const std::size_t size = size_of(c.dtype), channels = static_cast<std::size_t>(c.groups * c.outputs);
    std::vector<std::byte> host(channels * size);
    for (std::size_t i = 0; i < channels; ++i) store_one(biases[i % biases.size()], &host[i * size], c.dtype);
    stream.device->copy_to_device(host.data(), data.trial, host.size());
    data.bias = data.trial;
    cudnn.run(c, data, scratch);
    stream.device->copy_to_host(data.y, host.data(), host.size());
    for (std::size_t i = 0; i < channels; ++i) {
        const double expected = biases[i % biases.size()], y = load_one<double>(&host[i * size], c.dtype);
        if (std::isnan(expected) ? !std::isnan(y) : y != std::max(expected, 0.0)) return false;
    }
    return true;
}

/// Whether cuDNN has a plan with the ReLU that does what ours does, as far as that is known.
bool takes_relu(CudaStream& stream, const CudnnConvolution& c, const CudnnConvolutionData& data, std::byte* scratch) {
    CudnnCalls<CudnnConvolutions>& calls = calls_of(stream);
    if (!calls.takes(stream, c)) return false;
    calls.choose(stream, c, data, scratch);
    CudnnConvolutions& cudnn = *calls.open(stream);
    CudnnChoice& choice = cudnn.choice(c);
    const std::string& plan = cudnn.plan(c).name;
    if (choice.tried != plan) {
        if (stream.device->capturing()) return false;
        choice.exact = leaves_nan(stream, cudnn, c, data, scratch);
        choice.tried = plan;
    }
    if (!choice.exact) calls.refusal = "cuDNN's ReLU would hide NaN or infinity";
    return choice.exact;
}

}  // namespace

bool convolution_by_library(CudaStream& stream, CudnnConvolution& c, const CudnnConvolutionData& data,
                            std::byte* scratch) {
    if (!data.aligned()) return false;
    c.relu = c.relu && takes_relu(stream, c, data, scratch);
    if (!calls_of(stream).takes(stream, c)) return false;
    calls_of(stream).run(stream, c, data, scratch);
    return true;
}

std::string convolution_library(CudaStream& stream) { return calls_of(stream).text(stream); }

}  // namespace headroom::kernels
