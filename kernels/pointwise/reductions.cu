#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.cuh>
#include <headroom/kernels/pointwise/reduction_functions.hpp>

namespace headroom::kernels {

template struct Compiled<CudaStream, ReductionFunctions>;

}  // namespace headroom::kernels
