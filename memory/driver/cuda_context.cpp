#include <headroom/memory/driver/internal/cuda_context.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {

CudaContext::CudaContext(const std::string& library, int device) : api_(load_cuda(library)) {
    initialize();
    choose(device);
    require_virtual_memory();
    check(api_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

CudaContext::~CudaContext() {
    if (!forked()) api_.cuDevicePrimaryCtxRelease(device_);
}

void CudaContext::initialize() {
    const CUresult code = api_.cuInit(0);
    if (code == CUDA_ERROR_NO_DEVICE) {
        throw DeviceError("CUDA: no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the CPU");
    }
    if (code != CUDA_SUCCESS) {
        throw DeviceError(
            fmt::format("CUDA: cuInit failed: {}; check that nvidia-smi works, or use the CPU", describe(api_, code)));
    }
}

void CudaContext::choose(int index) {
    int count = 0;
    check(api_.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (index < 0 || index >= count) {
        throw DeviceError(
            fmt::format("CUDA: device {} does not exist; {} visible, numbered from 0: check CUDA_VISIBLE_DEVICES",
                        index, count == 1 ? "1 is" : fmt::format("{} are", count)));
    }
    check(api_.cuDeviceGet(&device_, index), "cuDeviceGet");
    char text[256] = {};
    check(api_.cuDeviceGetName(text, sizeof text, device_), "cuDeviceGetName");
    name_ = fmt::format("CUDA device {} ({})", index, text);
}

void CudaContext::require_virtual_memory() const {
    int supported = 0;
    check(api_.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device_),
          "cuDeviceGetAttribute");
    if (!supported) {
        throw DeviceError(fmt::format(
            "{} has no virtual memory management, which the allocator needs; use another GPU or the CPU", name_));
    }
}

void CudaContext::fail(CUresult code, std::string_view call, std::size_t bytes) const {
    const std::string amount = bytes ? fmt::format(" of {} bytes", bytes) : "";
    const char* const noted = noted_call_.load(std::memory_order_acquire);
    const std::string before =
        noted ? fmt::format("; before that, {} failed: {}", noted, describe(api_, noted_code_.load())) : "";
    throw DeviceError(fmt::format("{}: {}{} failed: {}{}", name_, call, amount, describe(api_, code), before));
}

void CudaContext::note(CUresult code, const char* call) noexcept {
    if (code == CUDA_SUCCESS || noted_call_.load(std::memory_order_relaxed)) return;
    noted_code_.store(code);
    noted_call_.store(call, std::memory_order_release);
}

// What fails here makes the call that follows fail, and that one is checked.
CudaContext::Current::Current(const CudaContext& context) : context_(context) {
    if (context.forked()) {
        throw DeviceError(
            fmt::format("{}: CUDA does not work in a forked process; fork before the first use of the GPU, or start "
                        "another program",
                        context.name_));
    }
    const CudaApi& api = context.api_;
    CUcontext present = nullptr;
    if (api.cuCtxGetCurrent(&present) != CUDA_SUCCESS || present != context.context_) {
        pushed_ = api.cuCtxPushCurrent(context.context_) == CUDA_SUCCESS;
    }
    api.cuThreadExchangeStreamCaptureMode(&mode_);
}

CudaContext::Current::~Current() {
    const CudaApi& api = context_.api_;
    api.cuThreadExchangeStreamCaptureMode(&mode_);
    CUcontext popped = nullptr;
    if (pushed_) api.cuCtxPopCurrent(&popped);
}

}  // namespace headroom::memory
