// Convolutions on a GPU by cuDNN, where it can be asked.
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

namespace {

constexpr std::uintptr_t kAlignment = 16;

CudnnCalls<CudnnConvolutions>& calls_of(CudaStream& stream) {
    return stream.state->get<CudnnCalls<CudnnConvolutions>>();
}

}  // namespace

bool convolution_by_library(CudaStream& stream, const CudnnConvolution& c, const CudnnConvolutionData& data,
                            std::byte* scratch) {
    for (const std::byte* address : {data.x, data.weight, data.y}) {
        if (reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
    }
    if (reinterpret_cast<std::uintptr_t>(data.bias) % kAlignment != 0) return false;
    if (!calls_of(stream).takes(stream, c)) return false;
    calls_of(stream).run(stream, c, data, scratch);
    return true;
}

std::string convolution_library(CudaStream& stream) { return calls_of(stream).text(stream); }

}  // namespace headroom::kernels
