#pragma once
// Softmax and its logarithm along one axis. Not needed for attention (attention.hpp stores no probabilities) or a loss
// (cross_entropy.hpp).
//
//     Tensor p = softmax(x);            // along the last axis
//     Tensor q = log_softmax(x, 0);
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

/// Along the last axis.
template <bool kLog>
struct SoftmaxOf {
    static constexpr OpInfo info{
        .name = kLog ? "log_softmax" : "softmax", .precision = Precision::full, .in_place = 0b1};
    struct Attrs {};
    struct Saved {
        Array y;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};
using Softmax = SoftmaxOf<false>;
using LogSoftmax = SoftmaxOf<true>;
extern template struct SoftmaxOf<false>;
extern template struct SoftmaxOf<true>;

}  // namespace ops

/// exp(x) / sum(exp(x)) along `axis`; x of any floating dtype, computed in f32 (f64 for f64). Errors: ShapeError,
/// DtypeError.
Tensor softmax(Tensor x, int axis = -1);
/// x - log(sum(exp(x))) along `axis`.
Tensor log_softmax(Tensor x, int axis = -1);

}  // namespace headroom
