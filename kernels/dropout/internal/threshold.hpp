#pragma once
// Dropout's threshold and factor for p, the same for every device.
//
//     const std::uint32_t threshold = drop_threshold(p);
//     y[i] = word[i] >= threshold ? x[i] * kept_scale<float>(p) : 0.0f;
#include <cmath>
#include <cstdint>

namespace headroom::kernels {

/// Elements whose word is at least this are kept: p 2^32, rounded up. p = 1 keeps one word in 2^32, with a factor of 0.
inline std::uint32_t drop_threshold(float p) {
    const double limit = std::ceil(static_cast<double>(p) * 0x1p32);
    return static_cast<std::uint32_t>(limit < 0x1p32 ? limit : 0x1p32 - 1.0);
}

/// 1 / (1 - p); 0 for p = 1.
template <class T>
T kept_scale(float p) {
    return p < 1.0f ? T(1) / (T(1) - static_cast<T>(p)) : T(0);
}

}  // namespace headroom::kernels
