#pragma once
// The formulas of running statistics for both devices.
//
//     running = joined(running, of_batch, share_of_batch(momentum, batches));
#include <cstdint>

#include <headroom/kernels/device/site.hpp>

namespace headroom::kernels {

/// `batches`: the number of batches including this one.
HEADROOM_DEVICE double share_of_batch(double momentum, std::int64_t batches) {
    return momentum < 0 ? 1 / static_cast<double>(batches) : momentum;
}

HEADROOM_DEVICE double joined(double running, double of_batch, double share) {
    return (1 - share) * running + share * of_batch;
}

}  // namespace headroom::kernels
