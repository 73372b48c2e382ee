#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/layer_norm/normalize.hpp>

namespace headroom::kernels {

void layer_norm(CudaStream& stream, const View& x, const View* gamma, const View* beta, double epsilon, const View& y,
                const View& mean, const View& rstd) {
    normalize(stream, x, gamma, beta, epsilon, y, &mean, rstd);
}

void layer_norm_backward(CudaStream& stream, const View& x, const View& dy, const View* gamma, const View& mean,
                         const View& rstd, const LayerNormGradients& gradients, std::byte* scratch) {
    normalize_backward(stream, x, dy, gamma, &mean, rstd, {gradients.x, gradients.x_beta},
                       {gradients.gamma, gradients.gamma_beta}, {gradients.beta, gradients.beta_beta}, scratch);
}

}  // namespace headroom::kernels
