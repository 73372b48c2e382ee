#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template void map(CpuStream&, const Relu&, const View&, const View&);
template void map(CpuStream&, const LeakyRelu&, const View&, const View&);
template void map(CpuStream&, const Elu&, const View&, const View&);
template void map(CpuStream&, const Tanh&, const View&, const View&);
template void map(CpuStream&, const Sigmoid&, const View&, const View&);
template void map(CpuStream&, const Softplus&, const View&, const View&);
template void map(CpuStream&, const Silu&, const View&, const View&);
template void map(CpuStream&, const GeluErf&, const View&, const View&);
template void map(CpuStream&, const GeluTanh&, const View&, const View&);

template void map_backward(CpuStream&, const Relu&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const LeakyRelu&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Elu&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Tanh&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Sigmoid&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Softplus&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const Silu&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const GeluErf&, const View&, const View&, float, const View&);
template void map_backward(CpuStream&, const GeluTanh&, const View&, const View&, float, const View&);

}  // namespace headroom::kernels
