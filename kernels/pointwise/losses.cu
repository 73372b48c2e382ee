#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template void map(CudaStream&, const SquaredDifference&, const View&, const View&, const View&);
template void map(CudaStream&, const LogisticLoss&, const View&, const View&, const View&);

template void map_backward_a(CudaStream&, const SquaredDifference&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_b(CudaStream&, const SquaredDifference&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_a(CudaStream&, const LogisticLoss&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_b(CudaStream&, const LogisticLoss&, const View&, const View&, const View&, float,
                             const View&);

}  // namespace headroom::kernels
