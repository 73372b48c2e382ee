#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>
#include <headroom/kernels/pointwise/reduction_functions.hpp>

namespace headroom::kernels {

template struct Compiled<CpuStream, ReductionFunctions>;

}  // namespace headroom::kernels
