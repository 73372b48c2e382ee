#pragma once
// Per-kernel settings and limits that CUDA needs before a launch, queried once per kernel. Only in builds with nvcc.
//
//     CudaKernels& kernels = stream.state->get<CudaKernels>();
//     check_cuda(&device, "launch", kernels.prepare(function, multiprocessors, shape));   // may lower shape.x
#include <cstddef>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include <headroom/kernels/device/shape.hpp>

namespace headroom::kernels {

/// Part of a stream's state, for one device.
class CudaKernels {
  public:
    /// Allows the kernel the shape's shared memory; the device must be current. If the shape says that the kernel loops
    /// over its grid, removes the blocks that the device could not run together with the others, since these would
    /// start late on an otherwise idle device. `multiprocessors`: how many the device has.
    cudaError_t prepare(const void* kernel, int multiprocessors, device::LaunchShape& shape);

  private:
    struct Kernel {
        bool has_most = false;  ///< the kernel may use the largest shared memory of a block
        // From the last launch that looped.
        unsigned threads = 0;
        std::size_t shared = 0;
        int blocks = 0;  ///< blocks that a multiprocessor holds at once
    };
    std::unordered_map<const void*, Kernel> kernels_;
};

}  // namespace headroom::kernels
