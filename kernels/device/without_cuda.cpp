// Stands in for cuda_device.cpp in builds without CUDA. Where tests link the emulator, its device comes first.
#include <headroom/kernels/device/cuda_device.hpp>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

std::unique_ptr<CudaDevice> open_cuda_device(int) {
    throw DeviceError("cuda: this build of Headroom has no CUDA; build it with -DHEADROOM_CUDA=ON, or use the CPU");
}

int cuda_device_count() { return 0; }

bool cuda_is_emulated() { return false; }

}  // namespace headroom::kernels
