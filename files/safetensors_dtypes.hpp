#pragma once
// The names that safetensors files give to dtypes, and those that tensors may have in them.
//
//     files::safetensors_name(Dtype::bf16);   // "BF16"
//     files::safetensors_dtype("F8_E4M3");    // none: not supported
#include <algorithm>
#include <optional>
#include <string_view>

#include <headroom/core/types.hpp>

namespace headroom::files {

/// The format's name of a dtype.
constexpr std::string_view safetensors_name(Dtype dtype) {
    constexpr std::string_view names[kernels::kDtypeCount] = {"F32", "F16", "BF16", "F64", "I32", "I64", "U8", "BOOL"};
    return names[static_cast<int>(dtype)];
}

/// The dtype of a name; none if Headroom has no such dtype.
constexpr std::optional<Dtype> safetensors_dtype(std::string_view name) {
    for (int i = 0; i < kernels::kDtypeCount; ++i) {
        if (safetensors_name(static_cast<Dtype>(i)) == name) return static_cast<Dtype>(i);
    }
    return std::nullopt;
}

/// Names are printed in messages of one line, so control characters are refused.
constexpr bool is_sound_name(std::string_view name) {
    return name.size() <= 1024 &&
           std::none_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < 32) || c == 127; });
}

}  // namespace headroom::files
