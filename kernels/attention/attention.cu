#include <headroom/kernels/attention/paths.hpp>

namespace headroom::kernels {

void attention(CudaStream& stream, const Attention& attention, std::byte* scratch) {
    const Geometry g = geometry_of(attention.q, attention.k, attention.causal);
    if (g.batch * g.heads * g.queries == 0) return;
    if (attention_by_library(stream, attention, scratch)) return;
    if (fits_tensor_cores(g, attention.q.dtype)) {
        attention_on_tensor_cores(stream, attention);
    } else {
        attention_plain(stream, attention);
    }
}

}  // namespace headroom::kernels
