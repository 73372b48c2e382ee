// Stands in for cuda_convolution.cpp where cuDNN's frontend is not there, and in the emulator's build.
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>

namespace headroom::kernels {

bool convolution_by_library(CudaStream&, CudnnConvolution&, const CudnnConvolutionData&, std::byte*) { return false; }
std::string convolution_library(CudaStream&) {
    return "own kernels: built without the headers of cuDNN and its frontend";
}

}  // namespace headroom::kernels
