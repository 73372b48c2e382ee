#pragma once
// Two numbers for an image's axes, such as sizes, strides and paddings: rows, then columns. A single number stands for
// both, as in PyTorch.
//
//     IntPair kernel = 3;                   // {3, 3}
//     IntPair stride = {2, 1};              // stride[0] of rows, stride[1] of columns
#include <array>
#include <cstddef>
#include <cstdint>

namespace headroom::kernels {

class IntPair {
  public:
    constexpr IntPair() = default;                                 ///< {0, 0}
    constexpr IntPair(std::int64_t both) : values_{both, both} {}  // NOLINT(google-explicit-constructor)
    constexpr IntPair(std::int64_t rows, std::int64_t columns) : values_{rows, columns} {}

    constexpr std::int64_t operator[](std::size_t axis) const { return values_[axis]; }
    constexpr std::int64_t& operator[](std::size_t axis) { return values_[axis]; }
    constexpr bool operator==(const IntPair&) const = default;

  private:
    std::array<std::int64_t, 2> values_{};
};

}  // namespace headroom::kernels
