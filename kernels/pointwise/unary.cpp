#include <headroom/kernels/pointwise/compiled.hpp>
#include <headroom/kernels/pointwise/pointwise_loops.hpp>

namespace headroom::kernels {

template struct Compiled<CpuStream, UnaryFunctions>;
template struct Compiled<CpuStream, UnaryPredicates>;

}  // namespace headroom::kernels
