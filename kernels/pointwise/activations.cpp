#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template struct Compiled<CpuStream, Activations>;

}  // namespace headroom::kernels
