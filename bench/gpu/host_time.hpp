#pragma once
// The time that the host needs to queue work for a GPU.
//
//     const double seconds = queueing_seconds(*context.gpu(), 20, [&] { training.step(); });
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom {

/// The upper one of two middle values. `values` is not empty.
inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Seconds that the host needs for one call of `work`, which queues kernels and does not wait for them: the median of
/// `runs` calls (at most 9). Before each, the host waits until the device has done all work: a queue takes some
/// thousand kernels at most, and a host that is so far ahead would be timed at the device's pace.
template <class Work>
double queueing_seconds(kernels::CudaDevice& device, std::int64_t runs, Work&& work) {
    std::vector<double> seconds;
    for (std::int64_t run = 0; run < std::min<std::int64_t>(runs, 9); ++run) {
        device.synchronize();
        const auto begin = std::chrono::steady_clock::now();
        work();
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return median(std::move(seconds));
}

}  // namespace headroom
