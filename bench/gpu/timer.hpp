#pragma once
// The time of work on a GPU's stream, by events: the median of several runs, after a warm-up.
//
//     GpuTimer timer(static_cast<cudaStream_t>(device.native()));
//     double milliseconds = timer.median([&] { kernels::softmax(stream, x, y); });
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace headroom {

inline void expect_success(cudaError_t error, const char* call) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

class GpuTimer {
  public:
    explicit GpuTimer(cudaStream_t stream) : stream_(stream) {
        expect_success(cudaEventCreate(&begin_), "cudaEventCreate");
        expect_success(cudaEventCreate(&end_), "cudaEventCreate");
    }
    ~GpuTimer() {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }
    GpuTimer(const GpuTimer&) = delete;
    GpuTimer& operator=(const GpuTimer&) = delete;

    /// Of one call of `work`, in milliseconds. Each run is of `repeats` calls, so that launches are not what is timed.
    template <class Work>
    double median(Work&& work, int runs = 11, int repeats = 5) {
        for (int i = 0; i < 3; ++i) work();
        std::vector<double> times;
        for (int run = 0; run < runs; ++run) {
            expect_success(cudaEventRecord(begin_, stream_), "cudaEventRecord");
            for (int i = 0; i < repeats; ++i) work();
            expect_success(cudaEventRecord(end_, stream_), "cudaEventRecord");
            expect_success(cudaEventSynchronize(end_), "cudaEventSynchronize");
            float milliseconds = 0;
            expect_success(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
            times.push_back(milliseconds / repeats);
        }
        std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
        return times[static_cast<std::size_t>(runs / 2)];
    }

  private:
    cudaStream_t stream_;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace headroom
