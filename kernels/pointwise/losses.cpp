#include <headroom/kernels/pointwise/loss_functions.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template void map(CpuStream&, const SquaredDifference&, const View&, const View&, const View&);
template void map(CpuStream&, const LogisticLoss&, const View&, const View&, const View&);

template void map_backward_a(CpuStream&, const SquaredDifference&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_b(CpuStream&, const SquaredDifference&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_a(CpuStream&, const LogisticLoss&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_b(CpuStream&, const LogisticLoss&, const View&, const View&, const View&, float,
                             const View&);

}  // namespace headroom::kernels
