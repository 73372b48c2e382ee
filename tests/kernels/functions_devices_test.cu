#include <headroom/kernels/pointwise/pointwise_loops.cuh>
#include <headroom/tests/kernels/own_functions.hpp>

namespace headroom::kernels {

template void map(CudaStream&, const test::Cube&, const View&, const View&);
template void map_backward(CudaStream&, const test::Cube&, const View&, const View&, float, const View&);

template void map(CudaStream&, const test::Hypotenuse&, const View&, const View&, const View&);
template void map_backward_a(CudaStream&, const test::Hypotenuse&, const View&, const View&, const View&, float,
                             const View&);
template void map_backward_b(CudaStream&, const test::Hypotenuse&, const View&, const View&, const View&, float,
                             const View&);

}  // namespace headroom::kernels
