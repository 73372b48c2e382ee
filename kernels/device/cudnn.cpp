#include <headroom/kernels/device/cudnn.hpp>

#include <headroom/kernels/device/internal/cudnn_calls.hpp>

namespace headroom::kernels {

std::string cudnn_absence(CudaStream& stream) {
    const auto& cudnn = stream.state->get<OpenedCudnn>();
    if (!cudnn.absence.empty()) return one_line("own kernels compute attention and convolutions: " + cudnn.absence);
    return cudnn.attention_refusal.empty() ? "" : "own kernels compute attention: cuDNN: " + cudnn.attention_refusal;
}

}  // namespace headroom::kernels
