#include <headroom/kernels/device/cuda_device.hpp>

#include <array>
#include <cstdlib>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <headroom/kernels/device/cuda_error.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/device/internal/cuda_staging.hpp>
#include <headroom/memory/cuda_driver.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

class RuntimeEvent final : public CudaEvent {
  public:
    explicit RuntimeEvent(cudaEvent_t event) : event_(event) {}
    ~RuntimeEvent() override { cudaEventDestroy(event_); }
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_;
};

class RuntimeGraph final : public CudaGraph {
  public:
    explicit RuntimeGraph(cudaGraphExec_t graph) : graph_(graph) {}
    ~RuntimeGraph() override { cudaGraphExecDestroy(graph_); }
    cudaGraphExec_t get() const { return graph_; }

  private:
    cudaGraphExec_t graph_;
};

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
                       .blocks = found.maxBlocksPerMultiProcessor,
                       .shared_bytes = found.sharedMemPerBlockOptin};
        for (std::size_t i = 0; i < kCudaQueues; ++i) {
            check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&streams_[i].get, cudaStreamNonBlocking));
            native_[i] = streams_[i].get;
        }
        reached_ = make_event();
        void* shared = nullptr;
        check("cudaHostAlloc", cudaHostAlloc(&shared, sizeof(IndexError), cudaHostAllocMapped));
        index_error_ = new (shared) IndexError;
        profiled_ = std::getenv("NVTX_INJECTION64_PATH") != nullptr;  // set by profilers that listen
    }
    ~RuntimeDevice() override {
        for (const OwnedStream& stream : streams_) cudaStreamSynchronize(stream.get);
        cudaFreeHost(index_error_);
    }

    std::unique_ptr<memory::Driver> make_driver() override {
        return memory::make_cuda_driver({.device = properties_.index, .streams = {queue(CudaQueue::compute)}});
    }

    std::unique_ptr<CudaEvent> make_event() override {
        make_current();
        cudaEvent_t event = nullptr;
        check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        return std::make_unique<RuntimeEvent>(event);
    }
    void record(CudaEvent& event, CudaQueue to) override {
        check_not_captured("an event");
        make_current();
        check("cudaEventRecord", cudaEventRecord(static_cast<RuntimeEvent&>(event).get(), queue(to)));
    }
    void wait(CudaQueue from, const CudaEvent& event) override {
        check_not_captured("an event");
        make_current();
        check("cudaStreamWaitEvent",
              cudaStreamWaitEvent(queue(from), static_cast<const RuntimeEvent&>(event).get(), 0));
    }

    void launch(const CudaGraph& graph) override {
        make_current();
        count_launch();
        check("cudaGraphLaunch",
              cudaGraphLaunch(static_cast<const RuntimeGraph&>(graph).get(), queue(CudaQueue::compute)));
    }
    void make_current() override {
        check_usable();
        check("cudaSetDevice", cudaSetDevice(properties_.index));
    }
    void open_range(const char* text) override { nvtxRangePushA(text); }
    void close_range() override { nvtxRangePop(); }
    void copy(const void* from, void* to, std::size_t bytes, CudaQueue on) override {
        make_current();
        transfer(from, to, bytes, cudaMemcpyDeviceToDevice, on);
    }

  protected:
    void write(const void* host, void* device, std::size_t bytes, CudaQueue to) override {
        make_current();
        bool waited = false;
        const cudaError_t error = staging_[static_cast<std::size_t>(to)].copy(host, device, bytes, queue(to), waited);
        if (error != cudaSuccess) cudaStreamSynchronize(queue(to));  // what is under way will have no event behind it
        check("copy to the device", error);
        if (waited) count_wait();
    }
    void start_capture() override {
        make_current();
        // Other threads, which load data, may go on with calls that a capture forbids.
        check("cudaStreamBeginCapture",
              cudaStreamBeginCapture(queue(CudaQueue::compute), cudaStreamCaptureModeThreadLocal));
    }
    std::unique_ptr<CudaGraph> finish_capture() override {
        make_current();
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        cudaError_t error = cudaStreamEndCapture(queue(CudaQueue::compute), &graph);
        if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
        if (graph) cudaGraphDestroy(graph);
        if (error == cudaSuccess) return std::make_unique<RuntimeGraph>(executable);
        cudaGetLastError();  // so that no later call reports it
        throw CaptureError(
            fmt::format("CUDA can't build the graph: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error)));
    }
    void read(const void* device, void* host, std::size_t bytes, const CudaEvent* after) override {
        if (!after) record(*reached_, CudaQueue::compute);
        wait(CudaQueue::downloads, after ? *after : *reached_);
        transfer(device, host, bytes, cudaMemcpyDeviceToHost, CudaQueue::downloads);
        synchronize_with(CudaQueue::downloads);
    }
    void finish() override {
        synchronize_with(CudaQueue::uploads);
        synchronize_with(CudaQueue::exchanges);
        synchronize_with(CudaQueue::compute);
    }

  private:
    struct OwnedStream {
        cudaStream_t get = nullptr;
        OwnedStream() = default;
        OwnedStream(const OwnedStream&) = delete;
        OwnedStream& operator=(const OwnedStream&) = delete;
        ~OwnedStream() {
            if (get) cudaStreamDestroy(get);
        }
    };

    cudaStream_t queue(CudaQueue queue) const { return streams_[static_cast<std::size_t>(queue)].get; }
    void transfer(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind, CudaQueue on) {
        if (bytes > 0) check("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, kind, queue(on)));
    }
    void synchronize_with(CudaQueue with) { check("cudaStreamSynchronize", cudaStreamSynchronize(queue(with))); }

    void check(const char* call, cudaError_t error) { check_cuda(this, call, error); }

    std::array<OwnedStream, kCudaQueues> streams_;
    std::unique_ptr<CudaEvent> reached_;            ///< what a copy to the host waits for
    std::array<CudaStaging, kCudaQueues> staging_;  ///< page-locked memory, used in its queue's order
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
    if (driver == 0) return {0, "no NVIDIA driver was found; install it, or use --device cpu"};
    if (driver / 1000 < CUDART_VERSION / 1000) {
        return {0,
                fmt::format("the NVIDIA driver supports CUDA {}, but this program was built with {}; update the driver",
                            version_text(driver), version_text(CUDART_VERSION))};
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        return {0, fmt::format("no GPU was found ({}); check CUDA_VISIBLE_DEVICES", cudaGetErrorString(error))};
    }
    return {count, ""};
}

}  // namespace

int cuda_device_count() { return find_devices().count; }

bool cuda_is_emulated() { return false; }

std::string cuda_uuid(int index) {
    cudaDeviceProp found{};
    check_cuda(nullptr, "cudaGetDeviceProperties", cudaGetDeviceProperties(&found, index));
    std::string text = "GPU";
    for (std::size_t i = 0; i < sizeof(found.uuid.bytes); ++i) {
        if (i == 0 || (i % 2 == 0 && i >= 4 && i <= 10)) text += '-';
        text += fmt::format("{:02x}", static_cast<unsigned char>(found.uuid.bytes[i]));
    }
    return text;
}

std::unique_ptr<CudaDevice> open_cuda_device(int index) {
    const Found found = find_devices();
    if (found.count == 0) throw DeviceError(fmt::format("cuda: {}", found.problem));
    if (index < 0 || index >= found.count) {
        throw DeviceError(
            fmt::format("cuda: device {} does not exist; {} visible, numbered from 0", index, found.count));
    }
    return std::make_unique<RuntimeDevice>(index);
}

}  // namespace headroom::kernels
