#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template void map(CudaStream&, const Add&, const View&, const View&, const View&);
template void map(CudaStream&, const Sub&, const View&, const View&, const View&);
template void map(CudaStream&, const Mul&, const View&, const View&, const View&);
template void map(CudaStream&, const Div&, const View&, const View&, const View&);
template void map(CudaStream&, const Pow&, const View&, const View&, const View&);
template void map(CudaStream&, const Maximum&, const View&, const View&, const View&);
template void map(CudaStream&, const Minimum&, const View&, const View&, const View&);
template void map(CudaStream&, const Equal&, const View&, const View&, const View&);
template void map(CudaStream&, const NotEqual&, const View&, const View&, const View&);
template void map(CudaStream&, const Less&, const View&, const View&, const View&);
template void map(CudaStream&, const LessEqual&, const View&, const View&, const View&);
template void map(CudaStream&, const Greater&, const View&, const View&, const View&);
template void map(CudaStream&, const GreaterEqual&, const View&, const View&, const View&);
template void map(CudaStream&, const LogicalAnd&, const View&, const View&, const View&);
template void map(CudaStream&, const LogicalOr&, const View&, const View&, const View&);

template void map_backward_a(CudaStream&, const Add&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Add&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Sub&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Sub&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Mul&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Mul&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Div&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Div&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Pow&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Pow&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Maximum&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Maximum&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CudaStream&, const Minimum&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CudaStream&, const Minimum&, const View&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
