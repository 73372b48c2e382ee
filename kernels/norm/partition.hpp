#pragma once
// The number of parts into which a GPU cuts a sum of squares: one block each, whose result goes to scratch. Internal to
// norm/.
//
//     const std::int64_t parts = norm_parts(x.numel());
#include <algorithm>
#include <cstdint>

namespace headroom::kernels {

constexpr std::int64_t norm_parts(std::int64_t elements) { return std::clamp<std::int64_t>(elements / 16384, 1, 1024); }

}  // namespace headroom::kernels
