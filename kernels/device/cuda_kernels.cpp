#include <headroom/kernels/device/cuda_kernels.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom::kernels {

namespace {

/// CUDA keeps the attribute for a kernel and a device, whichever stream it is launched on: with less than the most, one
/// stream would take away what another has been told.
cudaError_t allow_most_shared_memory(const void* kernel) {
    int device = 0, most = 0;
    cudaFuncAttributes attributes{};
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most - static_cast<int>(attributes.sharedSizeBytes));
}

}  // namespace

cudaError_t CudaKernels::prepare(const void* kernel, int multiprocessors, device::LaunchShape& shape) {
    constexpr std::size_t usual = 48 * 1024;  // above that, a kernel needs an attribute
    if (!shape.loops && shape.shared_bytes <= usual) return cudaSuccess;
    Kernel& known = kernels_[kernel];
    if (shape.shared_bytes > usual && !known.has_most) {
        if (const cudaError_t error = allow_most_shared_memory(kernel)) return error;
        known.has_most = true;
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
