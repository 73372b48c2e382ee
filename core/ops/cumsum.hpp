#pragma once
// Cumulative sums.
//
//     Tensor starts = cumsum(lengths, 0) - lengths;        // where each sequence begins
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

struct Cumsum {
    static constexpr OpInfo info{.name = "cumsum"};
    struct Attrs {
        int axis = -1;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// y[i] = x[0] + ... + x[i] along an axis, in the dtype of x; integers and bool are summed as i64. Errors: ShapeError.
Tensor cumsum(Tensor x, int axis);

}  // namespace headroom
