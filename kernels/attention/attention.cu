#include <headroom/kernels/attention/internal/paths.hpp>

namespace headroom::kernels {

void AttentionPlan::run(CudaStream& stream, std::byte* scratch) const {
    const Geometry g = geometry_of(attention_.q, attention_.k, attention_.causal);
    if (g.batch * g.heads * g.queries == 0) return;
    if (library_ && attention_by_library(stream, *library_, attention_, scratch)) return;
    if (!fits_tensor_cores(g, attention_.q.dtype)) return attention_plain(stream, attention_);
    if (has_extras(attention_) || capability_of(stream) < kSdpaCapability) attention_not_asked(stream);
    attention_on_tensor_cores(stream, attention_);
}

}  // namespace headroom::kernels
