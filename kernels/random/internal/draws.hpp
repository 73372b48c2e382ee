#pragma once
// The formulas of multinomial draws, shared by both devices and compiled without contraction.
#include <cstdint>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/math.hpp>

namespace headroom::kernels {

/// An exponential number, -log(1 - u), u in (0, 1), with a small relative error near 0, where races are won.
constexpr float exponential_from(std::uint32_t word) {
    const float u = static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
    const float held = u > 1.0f - 0x1p-24f ? 1.0f - 0x1p-24f : u;
    const float rest = 1.0f - held;
    const float lost = (1.0f - rest) - held;  // the part of u lost in the subtraction
    return -(math::portable::log(rest) + lost / rest);
}

/// The first position whose sum exceeds `share` of the last sum, moved forward, or else back, to a position with
/// nonzero weight, because rounding may separate sums that should be equal.
template <class Weight>
HEADROOM_DEVICE std::int64_t position_of(double share, const double* sums, std::int64_t n, Weight&& weight) {
    const double target = share * sums[n - 1];
    std::int64_t low = 0, high = n - 1;
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (sums[middle] > target) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    while (low + 1 < n && weight(low) == 0) ++low;
    while (low > 0 && weight(low) == 0) --low;
    return low;
}

}  // namespace headroom::kernels
