// Products on a GPU by cuBLASLt.
#include <memory>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/internal/choices.hpp>
#include <headroom/kernels/matmul/internal/cuda_gemm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr int kRepetitions = 3;  // that are timed, after one that is not

class EventTimer final : public GemmTimer {
  public:
    explicit EventTimer(CudaDevice& device) : device_(device), stream_(static_cast<cudaStream_t>(device.native())) {}

    std::vector<float> time(int count, const std::function<void(int)>& enqueue) override {
        std::vector<Event> begin(static_cast<std::size_t>(count)), end(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) {
            enqueue(i);
            begin[static_cast<std::size_t>(i)].record(stream_);
            for (int repetition = 0; repetition < kRepetitions; ++repetition) enqueue(i);
            end[static_cast<std::size_t>(i)].record(stream_);
        }
        device_.synchronize();  // counted
        std::vector<float> times;
        for (std::size_t i = 0; i < begin.size(); ++i) times.push_back(end[i].since(begin[i]) / kRepetitions);
        return times;
    }
    void* borrow(std::size_t bytes) override {
        void* memory = nullptr;
        if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
        cudaGetLastError();  // no launch is to find it
        return nullptr;
    }
    void give_back(void* memory) override { cudaFree(memory); }

  private:
    class Event {
      public:
        Event() { check("cudaEventCreate", cudaEventCreate(&event_)); }
        ~Event() { cudaEventDestroy(event_); }
        Event(const Event&) = delete;
        Event& operator=(const Event&) = delete;

        void record(cudaStream_t stream) { check("cudaEventRecord", cudaEventRecord(event_, stream)); }
        float since(const Event& begin) const {
            float milliseconds = 0;
            check("cudaEventElapsedTime", cudaEventElapsedTime(&milliseconds, begin.event_, event_));
            return milliseconds;
        }

      private:
        static void check(const char* call, cudaError_t error) {
            if (error == cudaSuccess) return;
            throw DeviceError(fmt::format("matmul: {}: {}", call, cudaGetErrorString(error)));
        }
        cudaEvent_t event_ = nullptr;
    };

    CudaDevice& device_;
    cudaStream_t stream_;
};

BlasMatmul& blas_of(CudaStream& stream) {
    BlasState& state = stream.state->get<BlasState>();
    if (!state.blas) {
        stream.device->make_current();
        state.blas = std::make_unique<BlasMatmul>(load_blas());
    }
    return *state.blas;
}

}  // namespace

bool run_gemm(CudaStream& stream, const Gemm& gemm, const GemmCall& call) {
    stream.device->make_current();
    EventTimer timer(*stream.device);
    const BlasMatmul::Options options{.stream = static_cast<cudaStream_t>(stream.device->native()),
                                      .tf32 = stream.compute.tf32 && gemm.operand == Dtype::f32,
                                      .timer = stream.compute.tune ? &timer : nullptr};
    return blas_of(stream).run(gemm, call, options, stream.state->get<MatmulChoices>());
}

void save_matmul_choices(CudaStream& stream, const std::string& path) {
    stream.state->get<MatmulChoices>().save(path, stream.device->properties().name, blas_of(stream).version());
}

bool load_matmul_choices(CudaStream& stream, const std::string& path) {
    return stream.state->get<MatmulChoices>().load(path, stream.device->properties().name, blas_of(stream).version());
}

}  // namespace headroom::kernels
