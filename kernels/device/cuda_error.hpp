#pragma once
// Turns errors of CUDA's runtime into exceptions. Only in builds with nvcc.
//
//     check_cuda(&device, "cudaEventRecord", cudaEventRecord(event, stream));
#include <cuda_runtime_api.h>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

/// Does nothing for cudaSuccess. Errors: OutOfMemory if CUDA is out of device or page-locked memory, CaptureError while
/// the device captures a graph, DeviceError otherwise; the message includes CUDA's. If CUDA reports a permanent error,
/// the device (null: none) refuses all later work. Otherwise the failed call did nothing, and work can go on.
void check_cuda(CudaDevice* device, const char* call, cudaError_t error);

}  // namespace headroom::kernels
