#pragma once
// All lists of pointwise functions in one, for sources that define the kernels of all.
//
//     template struct Compiled<CudaStream, AllFunctions>;
#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>

namespace headroom::kernels {

template <class... Lists>
struct JoinedLists;
template <class... F>
struct JoinedLists<FunctionList<F...>> {
    using Type = FunctionList<F...>;
};
template <class... F, class... G, class... Rest>
struct JoinedLists<FunctionList<F...>, FunctionList<G...>, Rest...> : JoinedLists<FunctionList<F..., G...>, Rest...> {};

using AllFunctions = JoinedLists<UnaryFunctions, UnaryPredicates, BinaryFunctions, Comparisons, Activations,
                                 LossFunctions, ReductionFunctions>::Type;

}  // namespace headroom::kernels
