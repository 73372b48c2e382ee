#pragma once
// When a request for memory is live, in an order of events instead of time: what static placement is computed from.
// Internal to memory/plan/.
//
//     const Lifetime lifetimes[] = {{.bytes = 4096, .begin = 0, .end = 2}, {.bytes = 64, .begin = 1, .end = 3}};
//     fmt::print("{}\n", max_live(lifetimes));   // 4160
#include <cstddef>
#include <cstdint>
#include <span>

namespace headroom {

/// Live at begin, ..., end - 1.
struct Lifetime {
    std::size_t bytes = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

/// The most bytes that may be live at once, so that heights and limits fit into std::size_t with room to spare.
inline constexpr std::size_t kLargestLive = SIZE_MAX / 4;

/// The most bytes that are live at once: no placement is lower. n log n steps.
/// Errors: Error if a lifetime ends before it begins or more than kLargestLive bytes are live at once.
std::size_t max_live(std::span<const Lifetime> lifetimes);

}  // namespace headroom
