#pragma once
// The CUDA driver functions that memory needs, found in libcuda at run time. Members are spelled as in cuda.h, whose
// macros append the version suffix.
//
//     const memory::CudaApi api = memory::load_cuda("libcuda.so.1");
//     if (api.cuInit(0) == CUDA_ERROR_NO_DEVICE) ...
#include <cuda.h>

#include <string>

namespace headroom::memory {

struct CudaApi {
    decltype(&::cuGetErrorName) cuGetErrorName = nullptr;
    decltype(&::cuGetErrorString) cuGetErrorString = nullptr;
    decltype(&::cuDriverGetVersion) cuDriverGetVersion = nullptr;
    decltype(&::cuInit) cuInit = nullptr;
    decltype(&::cuDeviceGetCount) cuDeviceGetCount = nullptr;
    decltype(&::cuDeviceGet) cuDeviceGet = nullptr;
    decltype(&::cuDeviceGetName) cuDeviceGetName = nullptr;
    decltype(&::cuDeviceGetAttribute) cuDeviceGetAttribute = nullptr;
    decltype(&::cuDeviceTotalMem) cuDeviceTotalMem = nullptr;

    decltype(&::cuDevicePrimaryCtxRetain) cuDevicePrimaryCtxRetain = nullptr;
    decltype(&::cuDevicePrimaryCtxRelease) cuDevicePrimaryCtxRelease = nullptr;
    decltype(&::cuCtxGetCurrent) cuCtxGetCurrent = nullptr;
    decltype(&::cuCtxPushCurrent) cuCtxPushCurrent = nullptr;
    decltype(&::cuCtxPopCurrent) cuCtxPopCurrent = nullptr;
    decltype(&::cuThreadExchangeStreamCaptureMode) cuThreadExchangeStreamCaptureMode = nullptr;

    decltype(&::cuMemGetInfo) cuMemGetInfo = nullptr;
    decltype(&::cuMemGetAllocationGranularity) cuMemGetAllocationGranularity = nullptr;
    decltype(&::cuMemAddressReserve) cuMemAddressReserve = nullptr;
    decltype(&::cuMemAddressFree) cuMemAddressFree = nullptr;
    decltype(&::cuMemCreate) cuMemCreate = nullptr;
    decltype(&::cuMemRelease) cuMemRelease = nullptr;
    decltype(&::cuMemMap) cuMemMap = nullptr;
    decltype(&::cuMemUnmap) cuMemUnmap = nullptr;
    decltype(&::cuMemSetAccess) cuMemSetAccess = nullptr;
    decltype(&::cuMemHostAlloc) cuMemHostAlloc = nullptr;
    decltype(&::cuMemFreeHost) cuMemFreeHost = nullptr;

    decltype(&::cuEventCreate) cuEventCreate = nullptr;
    decltype(&::cuEventDestroy) cuEventDestroy = nullptr;
    decltype(&::cuEventRecord) cuEventRecord = nullptr;
    decltype(&::cuEventQuery) cuEventQuery = nullptr;
    decltype(&::cuEventSynchronize) cuEventSynchronize = nullptr;
    decltype(&::cuStreamWaitEvent) cuStreamWaitEvent = nullptr;
    decltype(&::cuStreamIsCapturing) cuStreamIsCapturing = nullptr;
};

/// Errors: DeviceError if the library can't be loaded, is not CUDA's, or is older than CUDA 10.2.
CudaApi load_cuda(const std::string& library);

/// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string describe(const CudaApi& api, CUresult code);

}  // namespace headroom::memory
