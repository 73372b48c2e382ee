#pragma once
// Copies with elements in other places: reversed, rotated, repeated. For orders that strides can express see
// `Tensor::transpose` and its neighbours, which copy nothing; for any order by index see index.hpp.
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
/// Elements move `shift` places along an axis, and those that leave it enter at the other end: y[i] = x[i - shift]. Two
/// parts, joined by `cat`.
Tensor roll(Tensor x, std::int64_t shift, int axis);
/// x repeated `times` times along each axis. `times` may have more axes than x; the additional ones come first. Copies
/// once for each axis that is repeated more than once.
Tensor repeat(Tensor x, const Shape& times);

}  // namespace headroom
