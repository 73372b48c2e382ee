// Convolutions on a GPU by cuDNN, where it can be asked.
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cuda_cudnn.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

namespace {

CudnnCalls<CudnnConvolutions>& calls_of(CudaStream& stream) {
    return stream.state->get<CudnnCalls<CudnnConvolutions>>();
}

}  // namespace

bool convolution_by_library(CudaStream& stream, const CudnnConvolution& c, const CudnnConvolutionData& data,
                            std::byte* scratch) {
    if (!data.aligned() || !calls_of(stream).takes(stream, c)) return false;
    calls_of(stream).run(stream, c, data, scratch);
    return true;
}

std::string convolution_library(CudaStream& stream) { return calls_of(stream).text(stream); }

}  // namespace headroom::kernels
