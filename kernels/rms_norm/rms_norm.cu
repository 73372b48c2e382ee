#include <headroom/kernels/layer_norm/normalize.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>

namespace headroom::kernels {

void rms_norm(CudaStream& stream, const View& x, const View* gamma, double epsilon, const View& y, const View& rstd) {
    normalize(stream, x, gamma, nullptr, epsilon, y, nullptr, rstd);
}

void rms_norm_backward(CudaStream& stream, const View& x, const View& dy, const View* gamma, const View& rstd,
                       const RmsNormGradients& gradients, std::byte* scratch) {
    normalize_backward(stream, x, dy, gamma, nullptr, rstd, {gradients.x, gradients.x_beta},
                       {gradients.gamma, gradients.gamma_beta}, {}, scratch);
}

}  // namespace headroom::kernels
