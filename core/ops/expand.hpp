#pragma once
// Repeats a tensor along axes of size 1, as a copy. Pointwise ops broadcast without a copy: use this for ops that
// don't, such as `cat`.
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

/// x with the given shape: axes of size 1 stretch, new axes come first. Returns x itself if it has that shape. Any
/// dtype. Errors: ShapeError.
Tensor expand(Tensor x, const Shape& shape);

}  // namespace headroom
