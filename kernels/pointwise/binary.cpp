#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template struct Compiled<CpuStream, BinaryFunctions>;
template struct Compiled<CpuStream, Comparisons>;

}  // namespace headroom::kernels
