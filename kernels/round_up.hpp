#pragma once
// Rounds sizes up to whole blocks.
//
//     quotient_up(100, 32);   // 4 blocks
//     round_up(100, 32);      // 128
#include <cstddef>
#include <cstdint>

namespace headroom::kernels {

/// a / b, rounded up. a >= 0, b >= 1.
constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of `step` that is at least `count`. count >= 0, step >= 1.
constexpr std::int64_t round_up(std::int64_t count, std::int64_t step) { return quotient_up(count, step) * step; }

/// Rounds bytes up to whole cache lines, so that the next array in scratch starts at its own line.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace headroom::kernels
