#pragma once
// The arguments of `Tensor::operator[]`, one per axis from the first on: a position, which drops the axis, or a range.
// The result is a view. For positions held in a tensor, see `index_select` and `gather`; for masks, `where`.
//
//     x[3];                            // position 3 of the first axis; -1 is the last one
//     x[Slice(1, 5)];                  // positions 1 to 4
//     x[{Slice(), 0}];                 // all of the first axis, position 0 of the second
//     x[{Ellipsis, Slice(0, -1, 2)}];  // the last axis without its end, every other position
#include <concepts>
#include <cstdint>
#include <limits>

namespace headroom {

/// Positions start, start + step, ... below stop, as in Python's start:stop:step. Negative positions count from the
/// back; step >= 1.
struct Slice {
    static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

    explicit constexpr Slice(std::int64_t start_ = 0, std::int64_t stop_ = kEnd, std::int64_t step_ = 1)
        : start(start_), stop(stop_), step(step_) {}

    std::int64_t start, stop, step;
};

struct EllipsisIndex {};
/// Stands for all axes that the other indices don't cover.
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
    Slice slice;  ///< a position is its start
};

}  // namespace headroom
