#pragma once
// Vector norms, over any axes. For the norm of all gradients see `optim`, for normalisation layer_norm.hpp.
//
//     Tensor lengths = norm(x, 2.0, {-1}, true);        // [8, 64] -> [8, 1]
//     Tensor largest = norm(x, INFINITY);
#include <headroom/core/ops/reduce.hpp>

namespace headroom {

namespace ops {

/// The Euclidean norm.
struct Norm {
    static constexpr OpInfo info{.name = "norm"};
    using Attrs = ReduceAttrs;
    struct Saved {
        Array x;
        Array y;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// (sum |x|^p)^(1/p) of a floating x. Infinite p: the largest |x|, or for -infinity the smallest; p = 0: the number of
/// nonzero elements. The gradient is 0 where the norm is 0 and, for p < 1, at elements that are 0. p = 2 is a separate
/// op; for any other p, arrays as large as x hold |x| and its powers. Axes and errors as in reduce.hpp; ShapeError also
/// for empty axes if p is negative or infinite, Error if p is NaN.
Tensor norm(Tensor x, double p = 2.0, const Axes& axes = {}, bool keepdim = false);

}  // namespace headroom
