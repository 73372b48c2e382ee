#include <headroom/memory/driver/internal/cuda_api.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/shared_library.hpp>

namespace headroom::memory {

namespace {

constexpr int kOldestDriver = 10020;  // the first with virtual memory management

void find_device(const SharedLibrary& library, CudaApi& api) {
    library.find(api.cuGetErrorName, "cuGetErrorName");
    library.find(api.cuGetErrorString, "cuGetErrorString");
    library.find(api.cuDriverGetVersion, "cuDriverGetVersion");
    library.find(api.cuInit, "cuInit");
    library.find(api.cuDeviceGetCount, "cuDeviceGetCount");
    library.find(api.cuDeviceGet, "cuDeviceGet");
    library.find(api.cuDeviceGetName, "cuDeviceGetName");
    library.find(api.cuDeviceGetAttribute, "cuDeviceGetAttribute");
    library.find(api.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
    library.find(api.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    library.find(api.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    library.find(api.cuCtxGetCurrent, "cuCtxGetCurrent");
    library.find(api.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
    library.find(api.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
    library.find(api.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
}

void find_memory(const SharedLibrary& library, CudaApi& api) {
    library.find(api.cuMemGetInfo, "cuMemGetInfo_v2");
    library.find(api.cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity");
    library.find(api.cuMemAddressReserve, "cuMemAddressReserve");
    library.find(api.cuMemAddressFree, "cuMemAddressFree");
    library.find(api.cuMemCreate, "cuMemCreate");
    library.find(api.cuMemRelease, "cuMemRelease");
    library.find(api.cuMemMap, "cuMemMap");
    library.find(api.cuMemUnmap, "cuMemUnmap");
    library.find(api.cuMemSetAccess, "cuMemSetAccess");
    library.find(api.cuMemHostAlloc, "cuMemHostAlloc");
    library.find(api.cuMemFreeHost, "cuMemFreeHost");
}

void find_events(const SharedLibrary& library, CudaApi& api) {
    library.find(api.cuEventCreate, "cuEventCreate");
    library.find(api.cuEventDestroy, "cuEventDestroy_v2");
    library.find(api.cuEventRecord, "cuEventRecord");
    library.find(api.cuEventQuery, "cuEventQuery");
    library.find(api.cuEventSynchronize, "cuEventSynchronize");
    library.find(api.cuStreamWaitEvent, "cuStreamWaitEvent");
    library.find(api.cuStreamIsCapturing, "cuStreamIsCapturing");
}

}  // namespace

CudaApi load_cuda(const std::string& file) {
    const SharedLibrary library("CUDA: the driver library", {file},
                                "install NVIDIA's driver 440.33 or newer, or use the CPU");
    CudaApi api;
    library.find(api.cuDriverGetVersion, "cuDriverGetVersion");
    int version = 0;
    if (api.cuDriverGetVersion(&version) == CUDA_SUCCESS && version < kOldestDriver) {
        throw DeviceError(
            fmt::format("CUDA: the driver supports CUDA {}.{}, but 10.2 is needed; install driver 440.33 or newer",
                        version / 1000, version % 1000 / 10));
    }
    find_device(library, api);
    find_memory(library, api);
    find_events(library, api);
    return api;
}

std::string describe(const CudaApi& api, CUresult code) {
    const char* name = nullptr;
    const char* meaning = nullptr;
    api.cuGetErrorName(code, &name);
    api.cuGetErrorString(code, &meaning);
    return fmt::format("{} ({})", name ? name : fmt::format("code {}", static_cast<int>(code)),
                       meaning ? meaning : "unknown to this driver");
}

}  // namespace headroom::memory
