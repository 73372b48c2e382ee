#pragma once
// A tensor repeated along axes of size 1, written out. Pointwise ops broadcast by themselves and need no copy: this is
// for ops that don't, such as `cat`.
//
//     Tensor rows = expand(bias, {768, 128});            // bias [128]
//     Tensor table = expand(x.unsqueeze(1), {8, 4, 64});  // x [8, 64]
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Expand {
    static constexpr OpInfo info{.name = "expand"};
    struct Attrs {
        Shape shape;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// x with the given shape: axes of size 1 stretch, new ones come in front. x itself if it has that shape. Any dtype.
/// Errors: ShapeError.
Tensor expand(Tensor x, const Shape& shape);

}  // namespace headroom
