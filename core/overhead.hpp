#pragma once
#include <cstddef>
#include <optional>

#include <headroom/core/context.hpp>

namespace headroom {

/// Bytes of the GPU's memory that are used and not reserved by the context's allocator, now: what CUDA's context, its
/// libraries and the kernels' code take, other contexts, and other programs. What a training takes of the GPU is this
/// and its reserved bytes. Empty on a CPU and on a dry context. Errors: DeviceError if the driver fails.
std::optional<std::size_t> unaccounted_device_bytes(Context& context);

}  // namespace headroom
