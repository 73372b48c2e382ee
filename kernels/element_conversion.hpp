#pragma once
// Conversions of single numbers where C++'s own are undefined or round twice. `convert.hpp` builds on them, on the CPU
// and on GPUs. Not for whole rows.
//
//     to_integer<std::uint8_t>(300.7f);            // 255
//     f16_from_float(to_float_odd(0.1));           // 0.1 to f16, rounded once
#include <bit>
#include <cstdint>
#include <limits>

namespace headroom::kernels {

/// To float, rounded to odd: the last bit records whether anything was lost, so that a second rounding, to fewer bits,
/// gives the same result as rounding once (Boldo and Melquiond 2008).
constexpr float to_float_odd(double x) {
    const auto nearest = static_cast<float>(x);
    const auto bits = std::bit_cast<std::uint32_t>(nearest);
    const auto wide = static_cast<double>(nearest);
    const bool exact = wide == x || x != x;
    const bool away = x < 0 ? wide < x : wide > x;
    const std::uint32_t odd = (bits - (away ? 1u : 0u)) | 1u;
    return std::bit_cast<float>(exact ? bits : odd);
}

/// The same for integers beyond 2^53.
constexpr double to_double_odd(std::int64_t x) {
    const bool small = x > -(1LL << 53) && x < (1LL << 53);
    const std::int64_t sticky = (x & ~0xfffLL) | ((x & 0xfff) != 0 ? 0x800LL : 0LL);
    return static_cast<double>(small ? x : sticky);
}

/// Towards zero, saturated; NaN gives 0.
template <class Integer, class Float>
constexpr Integer to_integer(Float x) {
    constexpr Float above = static_cast<Float>(std::numeric_limits<Integer>::max() / 2 + 1) * 2;
    constexpr Float lowest = static_cast<Float>(std::numeric_limits<Integer>::min());
    if (x >= above) return std::numeric_limits<Integer>::max();
    if (x <= lowest) return std::numeric_limits<Integer>::min();
    return x != x ? Integer{0} : static_cast<Integer>(x);
}

}  // namespace headroom::kernels
