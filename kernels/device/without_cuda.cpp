// Stands in for cuda_device.cpp in builds without CUDA, and for what says which libraries compute on a GPU. Where tests
// link the emulator, its device comes first.
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

[[noreturn]] void absent() {
    throw DeviceError("cuda: this build of Headroom has no CUDA; build it with -DHEADROOM_CUDA=ON, or use the CPU");
}

}  // namespace

std::unique_ptr<CudaDevice> open_cuda_device(int) { absent(); }
int cuda_device_count() { return 0; }
std::string cuda_uuid(int) { absent(); }
bool cuda_is_emulated() { return false; }

std::string attention_library(CudaStream&) { absent(); }
std::string convolution_library(CudaStream&) { absent(); }
std::string matmul_library(CudaStream&) { absent(); }

}  // namespace headroom::kernels
