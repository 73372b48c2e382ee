#include "softsign_kernels.hpp"

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/dispatch.hpp>

using namespace headroom::kernels;
using device::Block;

namespace {

struct SoftsignForward {
    template <class T>
    HEADROOM_DEVICE void operator()(Block& block, const T* x, T* y, std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            y[i] = x[i] / (T(1) + std::abs(x[i]));
        }
    }
};

struct SoftsignBackward {
    template <class T>
    HEADROOM_DEVICE void operator()(Block& block, const T* y, const T* dy, float beta, T* dx, std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) {
            const T slope = T(1) - std::abs(y[i]);
            const T gradient = dy[i] * slope * slope;
            dx[i] = beta == 0.0f ? gradient : T(beta) * dx[i] + gradient;
        }
    }
};

}  // namespace

void softsign_forward(CudaStream& stream, const View& x, const View& y) {
    const device::LaunchShape shape{.x = device::grid_for(stream, x.numel(), 256), .loops = true, .threads = 256};
    dispatch_compute(x.dtype, [&]<class T>(TypeTag<T>) {
        device::launch(stream, shape, SoftsignForward{}, x.as<const T>(), y.as<T>(), x.numel());
    });
}

void softsign_backward(CudaStream& stream, const View& y, const View& dy, float beta, const View& dx) {
    const device::LaunchShape shape{.x = device::grid_for(stream, y.numel(), 256), .loops = true, .threads = 256};
    dispatch_compute(y.dtype, [&]<class T>(TypeTag<T>) {
        device::launch(stream, shape, SoftsignBackward{}, y.as<const T>(), dy.as<const T>(), beta, dx.as<T>(),
                       y.numel());
    });
}
