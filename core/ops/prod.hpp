#pragma once
// Products over any axes.
//
//     Tensor likelihood = prod(probabilities, {-1});       // [8, 5] -> [8]
#include <headroom/core/ops/reduce.hpp>

namespace headroom {

namespace ops {

struct Prod {
    static constexpr OpInfo info{.name = "prod"};
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

/// The product, in the dtype of x; 1 for no elements. Integers and bool give i64, exact up to 2^53. The gradient is y /
/// x; where x is 0 it is the product of the other elements. Axes and errors as in reduce.hpp.
Tensor prod(Tensor x, const Axes& axes = {}, bool keepdim = false);

}  // namespace headroom
