#include <headroom/kernels/device/cuda_device.hpp>

#include <cstdlib>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <headroom/kernels/device/cuda_staging.hpp>
#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

class RuntimeDevice final : public CudaDevice {
  public:
    explicit RuntimeDevice(int index) {
        cudaDeviceProp found{};
        check("cudaSetDevice", cudaSetDevice(index));
        check("cudaGetDeviceProperties", cudaGetDeviceProperties(&found, index));
        properties_ = {.index = index,
                       .name = found.name,
                       .major = found.major,
                       .minor = found.minor,
                       .multiprocessors = found.multiProcessorCount,
                       .memory = found.totalGlobalMem};
        check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        native_ = stream_;
        void* shared = nullptr;
        const cudaError_t error = cudaHostAlloc(&shared, sizeof(IndexError), cudaHostAllocMapped);
        if (error != cudaSuccess) cudaStreamDestroy(stream_);
        check("cudaHostAlloc", error);
        index_error_ = new (shared) IndexError;
        profiled_ = std::getenv("NVTX_INJECTION64_PATH") != nullptr;  // set by profilers that listen
    }
    ~RuntimeDevice() override {
        cudaStreamSynchronize(stream_);
        cudaFreeHost(index_error_);
        cudaStreamDestroy(stream_);
    }

    std::unique_ptr<Driver> make_driver() override {
        return make_cuda_driver({.device = properties_.index, .streams = {stream_}});
    }

    void copy_to_device(const void* host, void* device, std::size_t bytes) override {
        make_current();
        bool waited = false;
        check("copy to the device", staging_.copy(host, device, bytes, stream_, waited));
        if (waited) count_wait();
    }
    void make_current() override {
        check_usable();
        check("cudaSetDevice", cudaSetDevice(properties_.index));
    }
    void open_range(const char* text) override { nvtxRangePushA(text); }
    void close_range() override { nvtxRangePop(); }
    void copy(const void* from, void* to, std::size_t bytes) override {
        transfer(from, to, bytes, cudaMemcpyDeviceToDevice);
    }

  protected:
    void read(const void* device, void* host, std::size_t bytes) override {
        transfer(device, host, bytes, cudaMemcpyDeviceToHost);
        wait();
    }
    void wait() override { check("cudaStreamSynchronize", cudaStreamSynchronize(stream_)); }

  private:
    void transfer(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
        make_current();
        if (bytes > 0) check("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kind, stream_));
    }

    /// Whatever these calls report is lasting: a fault of a kernel ends the device's context.
    void check(const char* call, cudaError_t error) {
        if (error == cudaSuccess) return;
        const std::string what = fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
        set_fault(what);
        throw DeviceError(fmt::format("cuda {}: {}", properties_.index, what));
    }

    cudaStream_t stream_ = nullptr;
    CudaStaging staging_;
};

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// How many there are; a reason in words why there may be none.
struct Found {
    int count = 0;
    std::string problem;
};

Found find_devices() {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return {0, "there is no NVIDIA driver; install it, or use --device cpu"};
    if (driver / 1000 < CUDART_VERSION / 1000) {
        return {0, fmt::format("the NVIDIA driver supports CUDA {}, this program was built with {}; update the driver",
                               version_text(driver), version_text(CUDART_VERSION))};
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        return {0, fmt::format("there is no GPU ({}); is CUDA_VISIBLE_DEVICES set?", cudaGetErrorString(error))};
    }
    return {count, ""};
}

}  // namespace

int cuda_device_count() { return find_devices().count; }

bool cuda_is_emulated() { return false; }

std::unique_ptr<CudaDevice> open_cuda_device(int index) {
    const Found found = find_devices();
    if (found.count == 0) throw DeviceError(fmt::format("cuda: {}", found.problem));
    if (index < 0 || index >= found.count) {
        throw DeviceError(fmt::format("cuda: there is no device {}; there are {}, counted from 0", index, found.count));
    }
    return std::make_unique<RuntimeDevice>(index);
}

}  // namespace headroom
