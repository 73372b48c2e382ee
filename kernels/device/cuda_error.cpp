#include <headroom/kernels/device/cuda_error.hpp>

#include <string>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/out_of_memory.hpp>

namespace headroom::kernels {

namespace {

/// After these, each later call returns the same error, until the process ends (cudaError in the reference of CUDA's
/// runtime), or what is in the device's memory may be wrong. If one were missing here, the next call would say so.
bool is_lasting(cudaError_t error) {
    switch (static_cast<int>(error)) {
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case 226:  // cudaErrorContained, of later releases
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case 721:  // cudaErrorTensorMemoryLeak, of later releases
        case 810:  // cudaErrorMpsClientTerminated, of later releases
        case 911:  // cudaErrorExternalDevice, of later releases
        case cudaErrorUnknown:
            return true;
        default:
            return false;
    }
}

}  // namespace

void check_cuda(CudaDevice* device, const char* call, cudaError_t error) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // it is told here, not by the next launch
    std::string what = fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
        what =
            "this program has no code for this GPU; build it with -DHEADROOM_CUDA_ARCHITECTURES=..., or update the "
            "driver";
    }
    if (device != nullptr && is_lasting(error)) device->set_fault(what);
    const std::string name = device != nullptr ? fmt::format("cuda {}", device->properties().index) : "cuda";
    if (device != nullptr && device->capturing()) throw CaptureError(what);
    if (error != cudaErrorMemoryAllocation) throw DeviceError(fmt::format("{}: {}", name, what));
    memory::MemoryReport report;
    report.device = name;
    report.advice = "free memory of the GPU or page-locked memory of the host, or set a lower memory limit";
    const std::string line = fmt::format("{}: {}; {}", name, what, report.advice);
    throw memory::OutOfMemory(line, std::move(report));
}

}  // namespace headroom::kernels
