#pragma once
// What an error of CUDA's runtime means for a device. Only builds with nvcc have it.
//
//     check_cuda(&device, "cudaEventRecord", cudaEventRecord(event, stream));
#include <cuda_runtime_api.h>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

/// Does nothing for cudaSuccess. Errors: OutOfMemory if CUDA found no memory, on the device or page-locked, DeviceError
/// for all else, or CaptureError while the device captures a graph; the message has CUDA's words. If CUDA says that the
/// error is for good, the device (null: none) refuses all work from then on. Else work can go on: the failed call did
/// nothing.
void check_cuda(CudaDevice* device, const char* call, cudaError_t error);

}  // namespace headroom::kernels
