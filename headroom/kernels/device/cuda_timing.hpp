#pragma once
// How long pieces of work take on a GPU: how the fastest of a library's algorithms is found. Internal to kernels.
//
//     const std::vector<float> times = time_each(device, 8, [&](int i) { enqueue(algorithms[i]); });
#include <functional>
#include <vector>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

/// Milliseconds that each of `count` pieces of work takes, which the second argument gives to a GPU. Waits.
using WorkTimer = std::function<std::vector<float>(int count, const std::function<void(int)>& enqueue)>;

/// The mean of three times that each is done on the compute queue, after one that is not timed. Waits, which is
/// counted. Errors: DeviceError.
std::vector<float> time_each(CudaDevice& device, int count, const std::function<void(int)>& enqueue);

}  // namespace headroom::kernels
