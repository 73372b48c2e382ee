#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template void map(CpuStream&, const Neg&, const View&, const View&);
template void map(CpuStream&, const Affine&, const View&, const View&);
template void map(CpuStream&, const Abs&, const View&, const View&);
template void map(CpuStream&, const Square&, const View&, const View&);
template void map(CpuStream&, const Reciprocal&, const View&, const View&);
template void map(CpuStream&, const Sqrt&, const View&, const View&);
template void map(CpuStream&, const Rsqrt&, const View&, const View&);
template void map(CpuStream&, const Exp&, const View&, const View&);
template void map(CpuStream&, const Expm1&, const View&, const View&);
template void map(CpuStream&, const Log&, const View&, const View&);
template void map(CpuStream&, const Log1p&, const View&, const View&);
template void map(CpuStream&, const Sin&, const View&, const View&);
template void map(CpuStream&, const Cos&, const View&, const View&);
template void map(CpuStream&, const Erf&, const View&, const View&);
template void map(CpuStream&, const Clamp&, const View&, const View&);
template void map(CpuStream&, const Sign&, const View&, const View&);
template void map(CpuStream&, const Floor&, const View&, const View&);
template void map(CpuStream&, const Ceil&, const View&, const View&);
template void map(CpuStream&, const LogicalNot&, const View&, const View&);
template void map(CpuStream&, const IsFinite&, const View&, const View&);

template void map_backward(CpuStream&, const Neg&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Affine&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Abs&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Square&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Reciprocal&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Sqrt&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Rsqrt&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Exp&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Expm1&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Log&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Log1p&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Sin&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Cos&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Erf&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Clamp&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Sign&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Floor&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Ceil&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
