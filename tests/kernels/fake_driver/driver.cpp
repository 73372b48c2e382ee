// A libcuda.so.1 that has no GPU: what cuDNN looks for in it before it makes a plan for a GPU that is described in
// words. It takes compiled kernels and keeps none; all else fails. Declared here as simply as the C calling convention
// allows.

namespace {
int taken;
constexpr int kSuccess = 0, kNotInitialized = 3;  // CUresult
}  // namespace

extern "C" {

int cuLibraryLoadData(void** library) {
    *library = &taken;
    return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
int cuLibraryGetKernel(void** kernel, void*, const char*) {
    *kernel = &taken;
    return kSuccess;
}
int cuKernelSetAttribute(int, int, void*, int) { return kSuccess; }

int cuCtxGetCurrent() { return kNotInitialized; }
int cuCtxGetLimit() { return kNotInitialized; }
int cuCtxPopCurrent() { return kNotInitialized; }
int cuCtxPushCurrent() { return kNotInitialized; }
int cuDeviceGet() { return kNotInitialized; }
int cuDeviceGetCount() { return kNotInitialized; }
int cuDriverGetVersion() { return kNotInitialized; }
int cuGetErrorName() { return kNotInitialized; }
int cuGetErrorString() { return kNotInitialized; }
int cuKernelGetAttribute() { return kNotInitialized; }
int cuKernelGetFunction() { return kNotInitialized; }
int cuLaunchCooperativeKernel() { return kNotInitialized; }
int cuLaunchKernel() { return kNotInitialized; }
int cuLaunchKernelEx() { return kNotInitialized; }
int cuLibraryLoadFromFile() { return kNotInitialized; }
int cuLinkAddData() { return kNotInitialized; }
int cuLinkComplete() { return kNotInitialized; }
int cuLinkCreate() { return kNotInitialized; }
int cuLinkDestroy() { return kNotInitialized; }
int cuOccupancyMaxPotentialClusterSize() { return kNotInitialized; }
int cuStreamGetCtx() { return kNotInitialized; }
}
