#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template struct Compiled<CudaStream, UnaryFunctions>;
template struct Compiled<CudaStream, UnaryPredicates>;

}  // namespace headroom::kernels
