#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template void map(CudaStream&, const Neg&, const View&, const View&);
template void map(CudaStream&, const Affine&, const View&, const View&);
template void map(CudaStream&, const Abs&, const View&, const View&);
template void map(CudaStream&, const Square&, const View&, const View&);
template void map(CudaStream&, const Reciprocal&, const View&, const View&);
template void map(CudaStream&, const Sqrt&, const View&, const View&);
template void map(CudaStream&, const Rsqrt&, const View&, const View&);
template void map(CudaStream&, const PowScalar&, const View&, const View&);
template void map(CudaStream&, const Exp&, const View&, const View&);
template void map(CudaStream&, const Expm1&, const View&, const View&);
template void map(CudaStream&, const Log&, const View&, const View&);
template void map(CudaStream&, const Log1p&, const View&, const View&);
template void map(CudaStream&, const Sin&, const View&, const View&);
template void map(CudaStream&, const Cos&, const View&, const View&);
template void map(CudaStream&, const Erf&, const View&, const View&);
template void map(CudaStream&, const Clamp&, const View&, const View&);
template void map(CudaStream&, const Sign&, const View&, const View&);
template void map(CudaStream&, const Floor&, const View&, const View&);
template void map(CudaStream&, const Ceil&, const View&, const View&);
template void map(CudaStream&, const LogicalNot&, const View&, const View&);
template void map(CudaStream&, const IsFinite&, const View&, const View&);

template void map_backward(CudaStream&, const Neg&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Affine&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Abs&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Square&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Reciprocal&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Sqrt&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Rsqrt&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const PowScalar&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Exp&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Expm1&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Log&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Log1p&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Sin&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Cos&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Erf&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Clamp&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Sign&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Floor&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Ceil&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
