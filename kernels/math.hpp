#pragma once
// Elementary functions for inner loops: branch-free and without calls, so that compilers vectorise loops around them
// without -ffast-math. They handle infinities, NaN, overflow and underflow correctly, but are not bit-equal to the
// standard library, which is good enough for a handful of scalars. Polynomials are minimax fits made for this library
// (Remez); the reductions are the classical ones (Cody and Waite 1980; Muller 2016). The overloads for double call the
// standard library: they serve gradient checks.
//
//     for (std::int64_t i = 0; i < n; ++i) y[i] = math::tanh(x[i]);
//
// Errors are in units in the last place over all floats, with or without fused multiply-add, as measured by the tests.
// Everything is always inlined, so a source compiled without contraction gets its own bits (see `random`).
//
// On a GPU, exp, log, log1p, tanh and erf are CUDA's, within 2 ulp by the CUDA C++ programming guide. Functions built
// on them differ from the CPU's in the last bits and keep the same bounds unless noted. `portable::log` has the same
// bits everywhere.
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#include <headroom/kernels/device/cuda_math.cuh>
#endif

namespace headroom::kernels::math {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

namespace detail {

inline constexpr float kRound = 0x1.8p23f;  ///< adding and subtracting it rounds to the nearest integer, ties to even
inline constexpr float kLog2High = 0x1.62e4p-1f;  ///< 15 bits, so that products with exponents are exact
inline constexpr float kLog2Low = 0x1.7f7d1cp-20f;

[[gnu::always_inline]] constexpr float magnitude(float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}

/// `value` >= 0 with the sign of `sign`.
[[gnu::always_inline]] constexpr float with_sign(float value, float sign) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) |
                                (std::bit_cast<std::uint32_t>(sign) & 0x80000000u));
}

/// 2^n for n in [-126, 127].
[[gnu::always_inline]] constexpr float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

struct Reduced {
    float r;
    std::int32_t n;
};

/// x = n ln 2 + r, |r| <= ln 2 / 2; |x| < 300.
[[gnu::always_inline]] constexpr Reduced reduce(float x) {
    const float shifted = x * 0x1.715476p+0f + kRound;
    const float n = shifted - kRound;
    return {(x - n * kLog2High) - n * kLog2Low,
            std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound)};
}

/// e^r - 1 for |r| <= ln 2 / 2, with a small relative error.
[[gnu::always_inline]] constexpr float expm1_polynomial(float r) {
    float q = 0x1.6bec3ep-10f;
    q = q * r + 0x1.122a96p-7f;
    q = q * r + 0x1.55567ap-5f;
    q = q * r + 0x1.5554acp-3f;
    q = q * r + 0x1.fffffep-2f;
    return r * r * q + r;
}

/// e^x for x in [-87, 88].
[[gnu::always_inline]] constexpr float exp_inside(float x) {
    const Reduced reduced = reduce(x);
    return (expm1_polynomial(reduced.r) + 1.0f) * power_of_two(reduced.n);
}

/// The polynomials of sin and cos on [-pi/4, pi/4].
[[gnu::always_inline]] constexpr float sin_polynomial(float r) {
    const float z = r * r;
    float p = 0x1.6cb8eep-19f;
    p = p * z - 0x1.a00f16p-13f;
    p = p * z + 0x1.111108p-7f;
    p = p * z - 0x1.555556p-3f;
    return r * z * p + r;
}
[[gnu::always_inline]] constexpr float cos_polynomial(float r) {
    const float z = r * r;
    float p = 0x1.99cd8ap-16f;
    p = p * z - 0x1.6c0bccp-10f;
    p = p * z + 0x1.55554ap-5f;
    return z * z * p + (1.0f - 0.5f * z);
}

/// sin(r + quarter pi/2).
[[gnu::always_inline]] constexpr float sin_quarter(float r, std::uint32_t quarter) {
    const float value = (quarter & 1) != 0 ? cos_polynomial(r) : sin_polynomial(r);
    return (quarter & 2) != 0 ? -value : value;
}

struct Angle {
    float r;
    std::uint32_t quarter;  ///< only the last two bits matter
};

/// x = quarter pi/2 + r, computed in double: accurate enough for |x| up to 2^28; beyond 2^50 the result is bounded but
/// meaningless.
[[gnu::always_inline]] constexpr Angle reduce_angle(float x) {
    const double wide = x;
    const double shifted = wide * 0x1.45f306dc9c883p-1 + 0x1.8p52;
    const double n = shifted - 0x1.8p52;
    const double r = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
    return {static_cast<float>(r), static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted))};
}

}  // namespace detail

/// a / b for b >= 1 or NaN; on a GPU a times the reciprocal, within 2 ulp, and 0 for b > 2^126.
[[gnu::always_inline]] constexpr float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return a * device::approximate_reciprocal(b);
#endif
    return a / b;
}

/// e^x, within 2 ulp; subnormal results are exact to their spacing.
[[gnu::always_inline]] constexpr float exp(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::expf(x);
#endif
    const float low = x < -104.0f ? -104.0f : x;
    const detail::Reduced reduced = detail::reduce(low > 89.0f ? 89.0f : low);
    const std::int32_t half = reduced.n >> 1;  // 2^n itself may not be a normal number
    return (detail::expm1_polynomial(reduced.r) + 1.0f) * detail::power_of_two(half) *
           detail::power_of_two(reduced.n - half);
}

/// e^x within 2 ulp for x >= -87, and at most e^-87 below: cheaper than `exp`, for sums where such small terms are
/// negligible.
[[gnu::always_inline]] constexpr float exp_above(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::expf(x);
#endif
    const float low = x < -87.0f ? -87.0f : x;
    const detail::Reduced reduced = detail::reduce(low > 89.0f ? 89.0f : low);
    return (detail::expm1_polynomial(reduced.r) + 1.0f) * detail::power_of_two(reduced.n - 1) * 2.0f;
}

/// e^x - 1, within 2 ulp, also near 0.
[[gnu::always_inline]] constexpr float expm1(float x) {
    const float low = x < -30.0f ? -30.0f : x;
    const detail::Reduced reduced = detail::reduce(low > 89.0f ? 89.0f : low);
    const float scale = detail::power_of_two(reduced.n - 1);
    return 2.0f * (scale * detail::expm1_polynomial(reduced.r) + (scale - 0.5f));
}

namespace portable {

/// The natural logarithm, within 2 ulp, with the same bits on every device if contraction is the same.
[[gnu::always_inline]] constexpr float log(float x) {
    const bool subnormal = x < 0x1p-126f;
    constexpr std::uint32_t root = 0x3f3504f3;  // of 1/2: mantissas range from there to twice that
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(subnormal ? x * 0x1p23f : x) - root);
    const auto exponent = static_cast<float>((bits >> 23) - (subnormal ? 23 : 0));
    const float f = std::bit_cast<float>((static_cast<std::uint32_t>(bits) & 0x7fffff) + root) - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    float p = 0x1.e3865ap-3f;
    p = p * z + 0x1.243546p-2f;
    p = p * z + 0x1.999a88p-2f;
    p = p * z + 0x1.555554p-1f;
    const float half_square = 0.5f * f * f;
    const float small = half_square - s * (half_square + z * p) - exponent * detail::kLog2Low;
    const float value = exponent * detail::kLog2High + (f - small);
    const float finite = x < kInfinity ? value : x;
    return x > 0.0f ? finite : (x == 0.0f ? -kInfinity : kNan);
}

}  // namespace portable

/// The natural logarithm, within 2 ulp.
[[gnu::always_inline]] constexpr float log(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::logf(x);
#endif
    return portable::log(x);
}

/// log(1 + x), within 3 ulp, also near 0.
[[gnu::always_inline]] constexpr float log1p(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::log1pf(x);
#endif
    const float u = 1.0f + x;
    const float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    const float value = log(u);
    return u > 0.0f && u < kInfinity ? value + lost / u : value;
}

/// Within 3 ulp.
[[gnu::always_inline]] constexpr float tanh(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::tanhf(x);
#endif
    const float a = detail::magnitude(x);
    const detail::Reduced reduced = detail::reduce(2.0f * (a > 9.1f ? 9.1f : a));
    const float scale = detail::power_of_two(reduced.n);
    const float t = scale * detail::expm1_polynomial(reduced.r) + (scale - 1.0f);
    return detail::with_sign(t / (t + 2.0f), x);
}

/// 1 / (1 + e^-x), within 3 ulp even near 0; on a GPU 0 below 2^-126.
[[gnu::always_inline]] constexpr float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return quotient(1.0f, 1.0f + exp(-x));
#endif
    const float e = exp(-detail::magnitude(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e) + (x != x ? x : 0.0f);
}

/// log(1 + e^x), within 3 ulp for x >= -87.
[[gnu::always_inline]] constexpr float softplus(float x) {
    const float e = exp(-detail::magnitude(x));
    return (x > 0.0f ? x : 0.0f) + log1p(e) + (x != x ? x : 0.0f);
}

/// The error function, within 2 ulp.
[[gnu::always_inline]] constexpr float erf(float x) {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) return ::erff(x);
#endif
    const float a = detail::magnitude(x);
    const float z = a * a;
    float inner = 0x1.54c532p-14f;
    inner = inner * z - 0x1.a7c00ep-11f;
    inner = inner * z + 0x1.547e2ap-8f;
    inner = inner * z - 0x1.b806c4p-6f;
    inner = inner * z + 0x1.ce2daap-4f;
    inner = inner * z - 0x1.812742p-2f;
    inner = inner * z + 0x1.06eba8p-3f;
    inner = a * inner + a;
    const float t = a > 4.0f ? 4.0f : a;
    float outer = -0x1.0bfa7p-16f;  // log(1 - erf(t)) / t
    outer = outer * t + 0x1.817ef2p-12f;
    outer = outer * t - 0x1.f3d06p-9f;
    outer = outer * t + 0x1.8ad39ep-6f;
    outer = outer * t - 0x1.b4a04p-4f;
    outer = outer * t - 0x1.45182ep-1f;
    outer = outer * t - 0x1.20f216p+0f;
    outer = 1.0f - detail::exp_inside(outer * t);
    return detail::with_sign(a > 0.93f ? outer : inner, x);
}

/// Within 2 ulp for |x| <= 2^18; absolute error up to 2^-23 for |x| up to 2^28; NaN at infinity.
[[gnu::always_inline]] constexpr float sin(float x) {
    const detail::Angle angle = detail::reduce_angle(x);
    return detail::sin_quarter(angle.r, angle.quarter);
}
/// As accurate as `sin`.
[[gnu::always_inline]] constexpr float cos(float x) {
    const detail::Angle angle = detail::reduce_angle(x);
    return detail::sin_quarter(angle.r, angle.quarter + 1);
}

struct SinCos {
    float sin;
    float cos;
};

/// Sine and cosine of 2 pi u for u in [0, 1]; absolute error up to 2^-23.
[[gnu::always_inline]] constexpr SinCos sin_cos_of_turns(float u) {
    const float shifted = u * 4.0f + detail::kRound;
    const float r = (u - (shifted - detail::kRound) * 0.25f) * 0x1.921fb6p+2f;
    const std::uint32_t quarter = std::bit_cast<std::uint32_t>(shifted);
    return {detail::sin_quarter(r, quarter), detail::sin_quarter(r, quarter + 1)};
}

// For double, from the standard library. Templates, because otherwise constexpr functions must be usable in constants.
template <std::same_as<double> T>
constexpr T quotient(T a, T b) {
    return a / b;
}
template <std::same_as<double> T>
constexpr T exp(T x) {
    return std::exp(x);
}
template <std::same_as<double> T>
constexpr T exp_above(T x) {
    return std::exp(x);
}
template <std::same_as<double> T>
constexpr T expm1(T x) {
    return std::expm1(x);
}
template <std::same_as<double> T>
constexpr T log(T x) {
    return std::log(x);
}
template <std::same_as<double> T>
constexpr T log1p(T x) {
    return std::log1p(x);
}
template <std::same_as<double> T>
constexpr T tanh(T x) {
    return std::tanh(x);
}
template <std::same_as<double> T>
constexpr T sigmoid(T x) {
    return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
template <std::same_as<double> T>
constexpr T softplus(T x) {
    return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
}
template <std::same_as<double> T>
constexpr T erf(T x) {
    return std::erf(x);
}
template <std::same_as<double> T>
constexpr T sin(T x) {
    return std::sin(x);
}
template <std::same_as<double> T>
constexpr T cos(T x) {
    return std::cos(x);
}

}  // namespace headroom::kernels::math
