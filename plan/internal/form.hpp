#pragma once
// The key of a value in plans and cost tables: dtype, shape, strides.
//
//     form_of(Dtype::f32, {{4, 8}, {8, 1}})        // "f32 [4, 8]/[8, 1]"
#include <string>

#include <fmt/format.h>

#include <headroom/core/array.hpp>

namespace headroom::plan {

/// "dtype shape/strides".
inline std::string form_of(Dtype dtype, const Geometry& geometry) {
    return fmt::format("{} {}/{}", name(dtype), geometry.shape.to_string(), geometry.strides.to_string());
}

}  // namespace headroom::plan
