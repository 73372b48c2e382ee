#include "softsign_kernels.hpp"

#include <headroom/kernels/device/launch.hpp>

using namespace headroom::kernels;
using device::Block;

namespace {

struct SoftsignForward {
    HEADROOM_DEVICE void operator()(Block& block, const float* x, float* y, std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            y[i] = x[i] / (1.0f + std::abs(x[i]));
        }
    }
};

struct SoftsignBackward {
    HEADROOM_DEVICE void operator()(Block& block, const float* y, const float* dy, float beta, float* dx,
                                    std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            const float slope = 1.0f - std::abs(y[i]);
            const float gradient = dy[i] * slope * slope;
            dx[i] = beta == 0.0f ? gradient : beta * dx[i] + gradient;
        }
    }
};

}  // namespace

void softsign_forward(CudaStream& stream, const View& x, const View& y) {
    device::launch(stream, {.x = device::grid_for(stream, x.numel(), 256), .threads = 256}, SoftsignForward{},
                   x.as<const float>(), y.as<float>(), x.numel());
}

void softsign_backward(CudaStream& stream, const View& y, const View& dy, float beta, const View& dx) {
    device::launch(stream, {.x = device::grid_for(stream, y.numel(), 256), .threads = 256}, SoftsignBackward{},
                   y.as<const float>(), dy.as<const float>(), beta, dx.as<float>(), y.numel());
}
