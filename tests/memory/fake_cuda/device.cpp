// Devices, contexts and the names of errors.
#include <headroom/tests/memory/fake_cuda/state.hpp>

#include <cstdio>

using namespace headroom::memory::test::fake_cuda;

extern "C" {

CUresult cuGetErrorName(CUresult code, const char** text) {
    *text = nullptr;
    if (code == CUDA_ERROR_INVALID_VALUE) *text = "CUDA_ERROR_INVALID_VALUE";
    if (code == CUDA_ERROR_OUT_OF_MEMORY) *text = "CUDA_ERROR_OUT_OF_MEMORY";
    if (code == CUDA_ERROR_ILLEGAL_ADDRESS) *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
    if (code == CUDA_ERROR_CAPTURED_EVENT) *text = "CUDA_ERROR_CAPTURED_EVENT";
    if (code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) *text = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
    *text = nullptr;
    if (code == CUDA_ERROR_INVALID_VALUE) *text = "invalid argument";
    if (code == CUDA_ERROR_OUT_OF_MEMORY) *text = "out of memory";
    if (code == CUDA_ERROR_ILLEGAL_ADDRESS) *text = "an illegal memory access was encountered";
    if (code == CUDA_ERROR_CAPTURED_EVENT)
        *text = "operation not permitted on an event last recorded in a capturing stream";
    if (code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) *text = "system has unsupported display driver";
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* version) {
    Call call("cuDriverGetVersion", Needs::nothing);
    *version = call.state().options.version;
    return call.code();
}

CUresult cuInit(unsigned flags) {
    Call call("cuInit", Needs::nothing);
    if (call.code()) return call.code();
    if (flags != 0) return call.misuse("flags");
    if (call.state().options.devices == 0) return CUDA_ERROR_NO_DEVICE;
    call.state().initialized = true;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    Call call("cuDeviceGetCount", Needs::initialized);
    *count = call.state().options.devices;
    return call.code();
}

CUresult cuDeviceGet(CUdevice* device, int index) {
    Call call("cuDeviceGet", Needs::initialized);
    if (call.code()) return call.code();
    if (index < 0 || index >= call.state().options.devices) return call.misuse("index", CUDA_ERROR_INVALID_DEVICE);
    *device = index;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* text, int bytes, CUdevice) {
    Call call("cuDeviceGetName", Needs::initialized);
    std::snprintf(text, static_cast<std::size_t>(bytes), "Fake GPU");
    return call.code();
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    Call call("cuDeviceGetAttribute", Needs::initialized);
    if (call.code()) return call.code();
    if (attribute != CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) return call.misuse("attribute");
    *value = call.state().options.virtual_memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
    Call call("cuDeviceTotalMem", Needs::initialized);
    *bytes = call.state().options.total_bytes;
    return call.code();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    Call call("cuDevicePrimaryCtxRetain", Needs::initialized);
    if (call.code()) return call.code();
    CUctx_st& primary = call.state().contexts[device];
    primary.device = device;
    ++primary.retained;
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    Call call("cuDevicePrimaryCtxRelease", Needs::initialized);
    if (call.code()) return call.code();
    CUctx_st& primary = call.state().contexts[device];
    if (primary.retained == 0) return call.misuse("it is not retained", CUDA_ERROR_INVALID_CONTEXT);
    --primary.retained;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    Call call("cuCtxGetCurrent", Needs::initialized);
    *context = context_stack().empty() ? nullptr : context_stack().back();
    return call.code();
}

CUresult cuCtxPushCurrent(CUcontext context) {
    Call call("cuCtxPushCurrent", Needs::initialized);
    if (call.code()) return call.code();
    if (!context || !context->retained) return call.misuse("no such context", CUDA_ERROR_INVALID_CONTEXT);
    context_stack().push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
    Call call("cuCtxPopCurrent", Needs::initialized);
    if (call.code()) return call.code();
    if (context_stack().empty()) return call.misuse("there is none", CUDA_ERROR_INVALID_CONTEXT);
    *context = context_stack().back();
    context_stack().pop_back();
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    Call call("cuThreadExchangeStreamCaptureMode", Needs::nothing);
    if (call.code()) return call.code();
    std::swap(*mode, capture_mode());
    return CUDA_SUCCESS;
}

}  // extern "C"
