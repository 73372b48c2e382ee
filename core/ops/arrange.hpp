#pragma once
// Copies that move elements: reversed, rotated, repeated. For orders that strides can express, `Tensor::transpose` and
// its neighbours copy nothing; for any order by index, see index.hpp.
//
//     Tensor mirrored = flip(images, {-1});
//     Tensor next = roll(tokens, -1, 1);                  // next[:, t] = tokens[:, t + 1]
//     Tensor tiles = repeat(x, {2, 1, 3});                // x [4, 5] -> [2, 4, 15]
//
// Any dtype. Errors: ShapeError.
#include <headroom/core/apply.hpp>
#include <headroom/core/ops/reduce.hpp>

namespace headroom {

namespace ops {

struct Flip {
    static constexpr OpInfo info{.name = "flip"};
    struct Attrs {
        Axes axes;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x with the given axes in reverse order.
Tensor flip(Tensor x, const Axes& axes);
/// Moves elements `shift` places along an axis; elements pushed off one end reappear at the other: y[i] = x[i - shift].
/// Implemented as a `cat` of two parts.
Tensor roll(Tensor x, std::int64_t shift, int axis);
/// Repeats x `times` times along each axis. `times` may have more axes than x; the additional ones come first. Copies
/// once per axis that is repeated more than once.
Tensor repeat(Tensor x, const Shape& times);

}  // namespace headroom
