#pragma once
// What CUDA must be told and asked about a kernel before its launches, once per kernel. Only builds with nvcc have it.
//
//     CudaKernels& kernels = stream.state->get<CudaKernels>();
//     check_cuda(&device, "launch", kernels.prepare(function, multiprocessors, shape));   // may lower shape.x
#include <cstddef>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include <headroom/kernels/device/shape.hpp>

namespace headroom::kernels {

/// A stream's state: of one device.
class CudaKernels {
  public:
    /// Lets the kernel have the shape's shared memory; the device is the current one. Where the shape says that the
    /// kernel loops over its grid, takes away blocks that the device could not run at once with the others: these few
    /// would begin after the others, on an otherwise idle device. `multiprocessors`: the device's.
    cudaError_t prepare(const void* kernel, int multiprocessors, device::LaunchShape& shape);

  private:
    struct Kernel {
        bool has_most = false;  ///< the kernel may have all the shared memory that the device can give a block
        // Of the last launch that looped.
        unsigned threads = 0;
        std::size_t shared = 0;
        int blocks = 0;  ///< that a multiprocessor holds at once
    };
    std::unordered_map<const void*, Kernel> kernels_;
};

}  // namespace headroom::kernels
