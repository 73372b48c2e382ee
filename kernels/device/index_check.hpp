#pragma once
// Kernels report the first index out of range to the host, which throws when it next waits, and continue with index 0.
// Only kernels include this.
//
//     const IndexCheck check = index_check(stream, "embedding: index", rows);      // host
//     const std::int64_t row = check(block, ids[i], i);                            // kernel: in [0, rows)
#include <cstdint>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels::device {

struct IndexCheck {
    IndexError* error;
    const char* what;
    std::int64_t bound;
    std::uint32_t path;
    std::int64_t first = 0;

    /// Returns `value` if it is in [first, bound), else 0 after recording the first such value with its position.
    HEADROOM_DEVICE std::int64_t operator()(Block& block, std::int64_t value, std::int64_t position,
                                            Site site = Site::current()) const {
        if (value >= first && value < bound) return value;
        if (block.atomic_cas(&error->state, IndexError::kNone, IndexError::kClaimed, site) == IndexError::kNone) {
            error->path = path;
            error->what = what;
            error->value = value;
            error->position = position;
            error->first = first;
            error->bound = bound;
            block.publish(&error->state, IndexError::kComplete, site);
        }
        return 0;
    }
};

/// `what` must be a string literal.
inline IndexCheck index_check(const CudaStream& stream, const char* what, std::int64_t bound, std::int64_t first = 0) {
    return {stream.device->index_error(), what, bound, stream.path, first};
}

}  // namespace headroom::kernels::device
