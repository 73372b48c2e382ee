#include <headroom/kernels/triangle/triangle.hpp>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/dispatch.hpp>

namespace headroom::kernels {

namespace {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 256;

template <class T>
struct KeepTriangle {
    static constexpr unsigned kMaxThreads = kThreads;

    Triangle part;
    float beta;
    Divisor width, height;

    HEADROOM_DEVICE void operator()(Block& block, const Strided<2> at) const {
        for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
            const auto row = static_cast<std::int64_t>(width.divide(static_cast<std::uint64_t>(i)));
            const auto matrix = static_cast<std::int64_t>(height.divide(static_cast<std::uint64_t>(row)));
            const bool inside = part.has(row - matrix * height.value(), i - row * width.value());
            const Offsets<2> offsets = at.offsets(i);
            at.accumulate<T>(0, offsets, beta, inside ? at.load<T>(1, offsets) : T(0));
        }
    }
};

}  // namespace

void triangle(CudaStream& stream, const View& x, const Triangle& part, float beta, const View& y) {
    if (y.numel() == 0) return;
    const Divisor width(x.shape[x.rank() - 1]), height(x.shape[x.rank() - 2]);
    const LaunchShape shape{.x = grid_for(stream, y.numel(), kThreads), .loops = true, .threads = kThreads};
    const Strided<2> at({&y, &x}, Walk::Order::shape);
    const auto run = [&]<class T>(TypeTag<T>) {
        launch(stream, shape, KeepTriangle<T>{part, beta, width, height}, at);
    };
    if (!is_floating(x.dtype)) return run(TypeTag<std::int64_t>{});
    x.dtype == Dtype::f64 || y.dtype == Dtype::f64 ? run(TypeTag<double>{}) : run(TypeTag<float>{});
}

}  // namespace headroom::kernels
