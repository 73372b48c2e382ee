// Stands in for cuda_attention.cpp where cuDNN's frontend is not there, and in the emulator's build.
#include <headroom/kernels/attention/internal/paths.hpp>

namespace headroom::kernels {

bool attention_by_library(CudaStream&, const Sdpa&, const Attention&, std::byte*) { return false; }
bool attention_gradient_by_library(CudaStream&, const Sdpa&, const AttentionGradient&, std::byte*) { return false; }
void attention_not_asked(CudaStream& stream) { refusal_of_old_gpu(stream); }
std::string attention_library(CudaStream&) {
    return "own kernels: built without the headers of cuDNN and its frontend";
}

}  // namespace headroom::kernels
