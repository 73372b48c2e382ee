#pragma once
// Element types, and the two 16-bit floating formats on the CPU, which are stored and converted but never computed in.
// Kernels compute in f32 (f64 for f64) and convert at load and store.
//
//     static_assert(size_of(Dtype::bf16) == 2);
//     float x = to_float(kernels::bf16_from_float(1.0f));
//     DtypeError("softmax: dtype must be floating, got " + std::string(name(dtype)));
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headroom::kernels {

enum class Dtype : std::uint8_t { f32, f16, bf16, f64, i32, i64, u8, boolean };

inline constexpr int kDtypeCount = 8;

/// The properties of a dtype. A new dtype adds a row.
struct DtypeTraits {
    std::string_view name;
    std::size_t size;  ///< bytes
    bool floating;
    bool half;
    double epsilon;  ///< the spacing of numbers just above 1; 0 for integers and bool
};

inline constexpr DtypeTraits kDtypeTraits[kDtypeCount] = {
    {"f32", 4, true, false, 0x1p-23}, {"f16", 2, true, true, 0x1p-10}, {"bf16", 2, true, true, 0x1p-7},
    {"f64", 8, true, false, 0x1p-52}, {"i32", 4, false, false, 0},     {"i64", 8, false, false, 0},
    {"u8", 1, false, false, 0},       {"bool", 1, false, false, 0},
};

constexpr const DtypeTraits& traits(Dtype dtype) { return kDtypeTraits[static_cast<int>(dtype)]; }
constexpr std::size_t size_of(Dtype dtype) { return traits(dtype).size; }
constexpr std::string_view name(Dtype dtype) { return traits(dtype).name; }
constexpr bool is_floating(Dtype dtype) { return traits(dtype).floating; }
constexpr bool is_half(Dtype dtype) { return traits(dtype).half; }
constexpr double epsilon(Dtype dtype) { return traits(dtype).epsilon; }

/// IEEE 754 binary16, as bits.
struct f16 {
    std::uint16_t bits;
};
/// The upper half of a binary32, as bits.
struct bf16 {
    std::uint16_t bits;
};

constexpr float to_float(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr bf16 bf16_from_float(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded)};
}

/// Exact. Portable; vector code uses the processor's instruction.
constexpr float to_float(f16 x) {
    const std::uint32_t sign = (x.bits & 0x8000u) << 16;
    const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
    const std::uint32_t fraction = x.bits & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

/// Rounds to nearest, ties to even; values too large become infinity, NaN stays NaN.
constexpr f16 f16_from_float(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded fraction in the low bits
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

}  // namespace headroom::kernels
