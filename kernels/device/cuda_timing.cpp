#include <headroom/kernels/device/internal/cuda_timing.hpp>

#include <chrono>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <headroom/kernels/device/cuda_error.hpp>

namespace headroom::kernels {

namespace {

constexpr int kRepetitions = 3;

class Event {
  public:
    Event() { check_cuda(nullptr, "cudaEventCreate", cudaEventCreate(&event_)); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(cudaStream_t stream) { check_cuda(nullptr, "cudaEventRecord", cudaEventRecord(event_, stream)); }
    float since(const Event& begin) const {
        float milliseconds = 0;
        check_cuda(nullptr, "cudaEventElapsedTime", cudaEventElapsedTime(&milliseconds, begin.event_, event_));
        return milliseconds;
    }

  private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace

std::vector<float> time_each(CudaDevice& device, int count, const std::function<void(int)>& enqueue) {
    device.make_current();
    const auto stream = static_cast<cudaStream_t>(device.native());
    std::vector<Event> begin(static_cast<std::size_t>(count)), end(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
        enqueue(i);
        begin[static_cast<std::size_t>(i)].record(stream);
        for (int repetition = 0; repetition < kRepetitions; ++repetition) enqueue(i);
        end[static_cast<std::size_t>(i)].record(stream);
    }
    device.synchronize();
    std::vector<float> times;
    for (std::size_t i = 0; i < begin.size(); ++i) times.push_back(end[i].since(begin[i]) / kRepetitions);
    return times;
}

double TuningTime::seconds_of_host() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string TuningTime::text() const { return left() ? "" : fmt::format("; tuning ended after {} s", kMost); }

}  // namespace headroom::kernels
