#include <headroom/kernels/pointwise/pointwise_loops.cuh>

namespace headroom::kernels {

template void map(CudaStream&, const Relu&, const View&, const View&);
template void map(CudaStream&, const LeakyRelu&, const View&, const View&);
template void map(CudaStream&, const Elu&, const View&, const View&);
template void map(CudaStream&, const Tanh&, const View&, const View&);
template void map(CudaStream&, const Sigmoid&, const View&, const View&);
template void map(CudaStream&, const Softplus&, const View&, const View&);
template void map(CudaStream&, const Silu&, const View&, const View&);
template void map(CudaStream&, const GeluErf&, const View&, const View&);
template void map(CudaStream&, const GeluTanh&, const View&, const View&);

template void map_backward(CudaStream&, const Relu&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const LeakyRelu&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Elu&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Tanh&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Sigmoid&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Softplus&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const Silu&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const GeluErf&, const View&, const View&, float, const View&);
template void map_backward(CudaStream&, const GeluTanh&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
