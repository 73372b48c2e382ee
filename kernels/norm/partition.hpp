#pragma once
// Into how many parts a GPU cuts the sum of squares of so many elements: one block each, whose result waits in scratch.
// Internal to norm/.
//
//     const std::int64_t parts = norm_parts(x.numel());
#include <algorithm>
#include <cstdint>

namespace headroom::kernels {

constexpr std::int64_t norm_parts(std::int64_t elements) { return std::clamp<std::int64_t>(elements / 16384, 1, 1024); }

}  // namespace headroom::kernels
