#pragma once
#include <cstddef>
#include <optional>

#include <headroom/core/context.hpp>

namespace headroom {

/// Bytes of GPU memory in use that the context's allocator has not reserved: CUDA's context, its libraries, kernel
/// code, other contexts and other programs. A training's total is this plus its reserved bytes. Empty on a CPU or dry
/// context. Errors: DeviceError if the driver fails.
std::optional<std::size_t> unaccounted_device_bytes(Context& context);

}  // namespace headroom
