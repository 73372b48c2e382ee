#include <headroom/kernels/layer_norm/internal/normalize.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>

namespace headroom::kernels {

void rms_norm(CudaStream& stream, const View& x, const View* gamma, double epsilon, const View& y, const View& rstd) {
    normalize(stream, x, gamma, nullptr, epsilon, y, nullptr, rstd);
}

void RmsNormGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    normalize_backward(stream, chunks_, x_, dy_, gamma_, nullptr, rstd_, gradients_.x, gradients_.gamma, {}, scratch);
}

}  // namespace headroom::kernels
