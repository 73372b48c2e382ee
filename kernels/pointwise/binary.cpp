#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template void map(CpuStream&, const Add&, const View&, const View&, const View&);
template void map(CpuStream&, const Sub&, const View&, const View&, const View&);
template void map(CpuStream&, const Mul&, const View&, const View&, const View&);
template void map(CpuStream&, const Div&, const View&, const View&, const View&);
template void map(CpuStream&, const Pow&, const View&, const View&, const View&);
template void map(CpuStream&, const Maximum&, const View&, const View&, const View&);
template void map(CpuStream&, const Minimum&, const View&, const View&, const View&);
template void map(CpuStream&, const Equal&, const View&, const View&, const View&);
template void map(CpuStream&, const NotEqual&, const View&, const View&, const View&);
template void map(CpuStream&, const Less&, const View&, const View&, const View&);
template void map(CpuStream&, const LessEqual&, const View&, const View&, const View&);
template void map(CpuStream&, const Greater&, const View&, const View&, const View&);
template void map(CpuStream&, const GreaterEqual&, const View&, const View&, const View&);
template void map(CpuStream&, const LogicalAnd&, const View&, const View&, const View&);
template void map(CpuStream&, const LogicalOr&, const View&, const View&, const View&);

template void map_backward_a(CpuStream&, const Add&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Add&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Sub&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Sub&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Mul&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Mul&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Div&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Div&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Pow&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Pow&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Maximum&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Maximum&, const View&, const View&, const View&, float, const View&);
template void map_backward_a(CpuStream&, const Minimum&, const View&, const View&, const View&, float, const View&);
template void map_backward_b(CpuStream&, const Minimum&, const View&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
