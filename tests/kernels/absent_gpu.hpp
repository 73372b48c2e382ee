#pragma once
// NVIDIA's cuDNN with a GPU that is described in words, so that it makes plans where there is none: kernels are
// compiled, and given to a driver that takes them and keeps none.
//
//     Cudnn cudnn(test::open_cudnn_without_gpu());       // DeviceError where cuDNN is not installed
#include <dlfcn.h>

#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels::test {

/// Of an H200, in the form in which cuDNN writes the properties of the GPU that it finds.
inline constexpr const char* kH200 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "oversizedSharedMemoryPerBlock": 0,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
    "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
    "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H200"})";

/// Of an RTX 2080 Ti, by its data sheet and the table of compute capabilities in CUDA's Programming Guide.
inline constexpr const char* kRtx2080Ti = R"({"maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 68, "smCountOrigin": 0,
    "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 65536,
    "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 0, "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 16, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 1024, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "totalGlobalMem": 11553462517, "smClockRateKHz": 1545000, "memClockRateKHz": 7000000,
    "l2CacheSize": 5767168, "cudaDeviceId": 0, "deviceVer": 750, "driverVer": 13000,
    "deviceName": "NVIDIA GeForce RTX 2080 Ti"})";

inline std::shared_ptr<const CudnnSession> open_cudnn_without_gpu(int capability = 90) {
    // Before cuDNN asks for libcuda.so.1, by which name the loader then knows it.
    if (!dlopen(HEADROOM_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL)) throw DeviceError(dlerror());
    return open_cudnn(
        {.capability = capability, .stream = nullptr, .description = capability == 75 ? kRtx2080Ti : kH200});
}

}  // namespace headroom::kernels::test
