#pragma once
// One CUDA device: keeps its primary context alive and turns failed calls into errors.
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
    /// Errors: DeviceError, with one line for each possible reason why there is no such device.
    CudaContext(const std::string& library, int device);
    ~CudaContext();
    CudaContext(const CudaContext&) = delete;
    CudaContext& operator=(const CudaContext&) = delete;

    /// Makes the context current for the calling thread, and allows calls that CUDA forbids during stream capture: none
    /// of them goes to a captured stream unless its caller says so. The destructor restores both.
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
    /// True in a process forked from the one that made the context: CUDA may not be called there.
    bool forked() const noexcept { return !process_.here(); }
    /// "CUDA device 0 (NVIDIA H200)".
    const std::string& name() const { return name_; }

    /// Throws DeviceError if `code` is not success; the message gives `bytes` unless it is 0.
    void check(CUresult code, std::string_view call, std::size_t bytes = 0) const {
        if (code != CUDA_SUCCESS) fail(code, call, bytes);
    }
    [[noreturn]] void fail(CUresult code, std::string_view call, std::size_t bytes = 0) const;
    /// For noexcept calls: keeps the first failure, which the next error names. `call` must have static lifetime.
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
