#include <headroom/core/overhead.hpp>

#include <algorithm>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom {

std::optional<std::size_t> unaccounted_device_bytes(Context& context) {
    if (context.gpu() == nullptr) return std::nullopt;
    const auto driver = context.gpu()->make_driver();
    const std::size_t used = driver->properties().total_bytes - driver->free_bytes();
    return used - std::min(used, context.memory().statistics().reserved);
}

}  // namespace headroom
