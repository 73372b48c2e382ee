#pragma once
// x to the power of y for inner loops: branch-free like `math.hpp`, and computed in double, because y multiplies the
// error of the logarithm. Slower than two exponentials; squares and roots have their own functors.
//
//     for (std::int64_t i = 0; i < n; ++i) y[i] = math::pow(x[i], 0.75f);
#include <headroom/kernels/math.hpp>

namespace headroom::kernels::math {

namespace detail {

/// The binary logarithm of a finite x > 0, with a relative error below 2^-44; for other x, the result is finite but
/// meaningless.
[[gnu::always_inline]] constexpr double log2_wide(double x) {
    constexpr std::int64_t root = 0x3fe6a09e667f3bcd;  // of 1/2
    constexpr std::int64_t bias = 0x4330000000000000;  // 2^52, whose low bits hold an integer
    const std::int64_t bits = std::bit_cast<std::int64_t>(x) - root;
    const std::uint64_t lifted = static_cast<std::uint64_t>(bits) + (1024ull << 52);
    const double exponent = std::bit_cast<double>(static_cast<std::int64_t>(lifted >> 52) | bias) - (0x1p52 + 1024.0);
    const double f = std::bit_cast<double>((bits & 0xfffffffffffff) + root) - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double p = 0x1.222440c773674p-2;
    p = p * z + 0x1.478d9989626e6p-2;
    p = p * z + 0x1.a61a5cbfd9686p-2;
    p = p * z + 0x1.2776c25c5753fp-1;
    p = p * z + 0x1.ec709dc569708p-1;
    p = p * z + 0x1.71547652b823ap+1;
    return exponent + s * p;
}

/// 2^x for x in [-1000, 1000], with a relative error below 2^-34; for other x, the result is meaningless.
[[gnu::always_inline]] constexpr double exp2_wide(double x) {
    const double shifted = x + 0x1.8p52;
    const double f = x - (shifted - 0x1.8p52);
    double p = 0x1.fe18c5c3e90e4p-17;
    p = p * f + 0x1.446a468676e25p-13;
    p = p * f + 0x1.5d8a6fcc978d3p-10;
    p = p * f + 0x1.3b29dc105382ep-7;
    p = p * f + 0x1.c6b08aaf8c435p-5;
    p = p * f + 0x1.ebfbe0a4f9110p-3;
    p = p * f + 0x1.62e42ff11626ap-1;
    p = p * f + 0x1.ffffffffab94ep-1;
    return p * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
}

}  // namespace detail

/// x to the power of y as C defines it: 1 for y = 0 or x = 1, NaN for x < 0 unless y is an integer. Within 1 ulp.
[[gnu::always_inline]] constexpr float pow(float x, float y) {
    // For the vectoriser, conditions are chained selections or joined by &, and compare numbers of one width.
    const float a = detail::magnitude(x);
    const double product = static_cast<double>(y) * detail::log2_wide(static_cast<double>(a));
    const double power = detail::exp2_wide(product);
    const auto finite = static_cast<float>(product < -200.0 ? 0.0 : (product > 200.0 ? 0x1p200 : power));
    const float known = y == y ? finite : kNan;
    const float at_zero = y > 0.0f ? 0.0f : (y < 0.0f ? kInfinity : y);
    const float at_infinity = y > 0.0f ? kInfinity : (y < 0.0f ? 0.0f : y);
    const float value = a == 0.0f ? at_zero : (a == kInfinity ? at_infinity : known);
    const float base = y == y ? a : x;  // for a NaN y: 1 for x = 1, but not for x = -1
    const float number = base == 1.0f ? 1.0f : (x == x ? value : kNan);
    const float positive = y == 0.0f ? 1.0f : number;

    const double shifted = static_cast<double>(y) + 0x1.8p52;
    const bool even = detail::magnitude(y) >= 0x1p25f;  // all floats from there on are even
    const bool integer = even | (static_cast<float>(shifted - 0x1.8p52) == y);
    const std::uint32_t parity = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted)) << 31;
    const std::uint32_t sign = (integer & !even) ? parity & std::bit_cast<std::uint32_t>(x) : 0u;
    const float with_sign = std::bit_cast<float>(std::bit_cast<std::uint32_t>(positive) ^ sign);
    const float forbidden = integer ? 0.0f : x;
    return ((forbidden < 0.0f) & (a < kInfinity)) ? kNan : with_sign;
}

template <std::same_as<double> T>
constexpr T pow(T x, T y) {
    return std::pow(x, y);
}

}  // namespace headroom::kernels::math
