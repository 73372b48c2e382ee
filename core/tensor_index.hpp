#pragma once
// The arguments of `Tensor::operator[]` for each axis, from the first one on: a position, which drops the axis, or a
// range. The result is a view. Not for positions that a tensor holds: see `index_select` and `gather`; nor for masks:
// `where`.
//
//     x[3];                            // position 3 of the first axis; -1 is the last one
//     x[Slice(1, 5)];                  // positions 1 to 4
//     x[{Slice(), 0}];                 // all of the first axis, position 0 of the second
//     x[{Ellipsis, Slice(0, -1, 2)}];  // the last axis without its end, every other position
#include <concepts>
#include <cstdint>
#include <limits>

namespace headroom {

/// Positions start, start + step, ... below stop, as in Python's start:stop:step. Negative ones count from the back,
/// step is at least 1.
struct Slice {
    static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

    explicit constexpr Slice(std::int64_t start_ = 0, std::int64_t stop_ = kEnd, std::int64_t step_ = 1)
        : start(start_), stop(stop_), step(step_) {}

    std::int64_t start, stop, step;
};

struct EllipsisIndex {};
/// All axes that the other indices do not name.
inline constexpr EllipsisIndex Ellipsis;

/// One index: a position, a Slice or Ellipsis.
struct TensorIndex {
    enum class Kind : std::uint8_t { position, slice, ellipsis };

    template <std::integral Position>
    constexpr TensorIndex(Position position)  // NOLINT(google-explicit-constructor): an index reads as a number
        : kind(Kind::position), slice(static_cast<std::int64_t>(position)) {}
    constexpr TensorIndex(Slice range) : kind(Kind::slice), slice(range) {}  // NOLINT(google-explicit-constructor)
    constexpr TensorIndex(EllipsisIndex) : kind(Kind::ellipsis) {}           // NOLINT(google-explicit-constructor)

    Kind kind;
    Slice slice;  ///< of a position: it starts there
};

}  // namespace headroom
