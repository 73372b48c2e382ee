#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template struct Compiled<CudaStream, LossFunctions>;

}  // namespace headroom::kernels
