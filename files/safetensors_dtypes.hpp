#pragma once
// The names of dtypes in safetensors files, and a check of tensor names.
//
//     files::safetensors_name(Dtype::bf16);   // "BF16"
//     files::safetensors_dtype("F8_E4M3");    // none: Headroom has no such dtype
//     files::safetensors_bits("F8_E4M3");     // 8
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include <headroom/core/types.hpp>

namespace headroom::files {

/// The format's name for a dtype.
constexpr std::string_view safetensors_name(Dtype dtype) {
    constexpr std::string_view names[kernels::kDtypeCount] = {"F32", "F16", "BF16", "F64", "I32", "I64", "U8", "BOOL"};
    return names[static_cast<int>(dtype)];
}

/// The dtype for a name; none if Headroom has no such dtype.
constexpr std::optional<Dtype> safetensors_dtype(std::string_view name) {
    for (int i = 0; i < kernels::kDtypeCount; ++i) {
        if (safetensors_name(static_cast<Dtype>(i)) == name) return static_cast<Dtype>(i);
    }
    return std::nullopt;
}

/// Bits per element for any dtype of the format; none if it has no dtype of that name.
constexpr std::optional<std::uint64_t> safetensors_bits(std::string_view name) {
    struct Named {
        std::string_view name;
        std::uint64_t bits;
    };
    constexpr Named others[] = {{"I8", 8},          {"I16", 16},        {"U16", 16},    {"U32", 32},    {"U64", 64},
                                {"F8_E4M3", 8},     {"F8_E5M2", 8},     {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
                                {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"C64", 64}};
    if (const std::optional<Dtype> ours = safetensors_dtype(name)) return 8 * size_of(*ours);
    for (const Named& other : others) {
        if (other.name == name) return other.bits;
    }
    return std::nullopt;
}

/// True for tensor names of at most 1024 bytes without control characters, since names appear in one-line messages.
constexpr bool is_sound_name(std::string_view name) {
    return name.size() <= 1024 &&
           std::none_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < 32) || c == 127; });
}

}  // namespace headroom::files
