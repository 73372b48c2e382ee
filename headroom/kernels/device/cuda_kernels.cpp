#include <headroom/kernels/device/cuda_kernels.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom::kernels {

cudaError_t CudaKernels::prepare(const void* kernel, int multiprocessors, device::LaunchShape& shape) {
    if (!shape.loops && shape.shared_bytes <= Kernel{}.shared_bytes) return cudaSuccess;
    Kernel& known = kernels_[kernel];
    if (shape.shared_bytes > known.shared_bytes) {
        const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(shape.shared_bytes));
        if (error != cudaSuccess) return error;
        known.shared_bytes = shape.shared_bytes;
    }
    if (!shape.loops) return cudaSuccess;
    if (known.threads != shape.threads || known.shared != shape.shared_bytes) {
        int blocks = 0;
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, kernel, static_cast<int>(shape.threads), shape.shared_bytes);
        if (error != cudaSuccess) return error;
        known.threads = shape.threads;
        known.shared = shape.shared_bytes;
        known.blocks = blocks;
    }
    const std::int64_t at_once = std::int64_t{known.blocks} * multiprocessors / (std::int64_t{shape.y} * shape.z);
    shape.x = static_cast<std::uint32_t>(std::clamp<std::int64_t>(at_once, 1, shape.x));
    return cudaSuccess;
}

}  // namespace headroom::kernels
