#include <fmt/format.h>

#include <headroom/kernels/attention/internal/paths.hpp>
#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

std::string refusal_of_old_gpu(CudaStream& stream) {
    const int capability = capability_of(stream);
    if (capability >= kSdpaCapability) return "";
    std::string& refusal = stream.state->get<OpenedCudnn>().attention_refusal;
    refusal = fmt::format("its attention needs compute capability {}, but this GPU has {}",
                          capability_text(kSdpaCapability), capability_text(capability));
    return refusal;
}

}  // namespace headroom::kernels
