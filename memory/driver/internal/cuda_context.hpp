#pragma once
// One CUDA device, whose primary context it keeps alive, and the errors of its calls.
//
//     memory::CudaContext context("libcuda.so.1", 0);
//     const memory::CudaContext::Current current(context);
//     context.check(context.api().cuMemGetInfo(&free, &total), "cuMemGetInfo");
#include <headroom/memory/driver/internal/cuda_api.hpp>
#include <headroom/memory/driver/internal/own_process.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

namespace headroom::memory {

class CudaContext {
  public:
    /// Errors: DeviceError, one line for each reason why there may be no such device.
    CudaContext(const std::string& library, int device);
    ~CudaContext();
    CudaContext(const CudaContext&) = delete;
    CudaContext& operator=(const CudaContext&) = delete;

    /// Makes the context current for the calling thread, and allows it calls that CUDA forbids while a stream is
    /// captured into a graph: none of the calls here goes to such a stream unless its caller says so. Both end with the
    /// object.
    class Current {
      public:
        /// Errors: DeviceError in a process that was forked after the context was made.
        explicit Current(const CudaContext& context);
        ~Current();
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;

      private:
        const CudaContext& context_;
        bool pushed_ = false;
        CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
    };

    const CudaApi& api() const { return api_; }
    CUdevice device() const { return device_; }
    /// In a process that was forked from the one that made the context, CUDA may not be called.
    bool forked() const noexcept { return !process_.here(); }
    /// "CUDA device 0 (NVIDIA H200)".
    const std::string& name() const { return name_; }

    /// Throws DeviceError if `code` is not success; `bytes` is named unless it is 0.
    void check(CUresult code, std::string_view call, std::size_t bytes = 0) const {
        if (code != CUDA_SUCCESS) fail(code, call, bytes);
    }
    [[noreturn]] void fail(CUresult code, std::string_view call, std::size_t bytes = 0) const;
    /// For calls that may not throw: keeps the first failure, which the next error names. `call` must live for ever.
    void note(CUresult code, const char* call) noexcept;

  private:
    void initialize();
    void choose(int index);
    void require_virtual_memory() const;

    const OwnProcess process_;
    const CudaApi api_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    std::string name_ = "CUDA";
    std::atomic<const char*> noted_call_ = nullptr;
    std::atomic<CUresult> noted_code_ = CUDA_SUCCESS;
};

}  // namespace headroom::memory
