#pragma once
// The logarithm of a sum of exponentials, over any axes. For a classifier's loss use cross_entropy.hpp, which includes
// it.
//
//     Tensor total = logsumexp(scores, {-1}, true);      // [8, 65] -> [8, 1]
#include <headroom/core/ops/reduce.hpp>

namespace headroom {

namespace ops {

struct LogSumExp {
    static constexpr OpInfo info{.name = "logsumexp"};
    using Attrs = ReduceAttrs;
    struct Saved {
        Array x;
        Array largest;  ///< of the reduced elements
        Array sum;      ///< of e^(x - largest)
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// log(sum(e^x)) of a floating x, without overflow; -infinity for no elements. Axes and errors as in reduce.hpp.
Tensor logsumexp(Tensor x, const Axes& axes = {}, bool keepdim = false);

}  // namespace headroom
