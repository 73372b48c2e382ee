#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template struct Compiled<CudaStream, BinaryFunctions>;
template struct Compiled<CudaStream, Comparisons>;

}  // namespace headroom::kernels
