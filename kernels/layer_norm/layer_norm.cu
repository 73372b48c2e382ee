#include <headroom/kernels/layer_norm/internal/normalize.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>

namespace headroom::kernels {

void layer_norm(CudaStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
                const View& mean, const View& rstd) {
    normalize(stream, x, gamma, beta, epsilon, y, &mean, rstd);
}

void LayerNormGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    normalize_backward(stream, chunks_, x_, dy_, gamma_, &mean_, rstd_, gradients_.x, gradients_.gamma, gradients_.beta,
                       scratch);
}

}  // namespace headroom::kernels
