#include <headroom/kernels/matmul/internal/activate.hpp>

#include <type_traits>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/matmul/internal/activation.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

/// `y` may be `x`.
template <class F, class T>
void both(F f, const T* x, T* dy, T* y, std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
        const auto [value, slope] = value_and_slope(f, x[i]);
        y[i] = value;
        dy[i] *= slope;
    }
}

template <class T, class F>
void pass(CpuStream& stream, F f, const View& x, const View& dy, const View& y) {
    const Walk walk({&dy, &x, &y});
    constexpr std::int64_t kCost = 16;
    for_each_share(stream, walk, kChunk, kCost * dy.numel(), [&](auto&& each) {
        alignas(64) T xs[kChunk], dys[kChunk], ys[kChunk];
        each([&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
            std::byte *dy_at = cursor.at(0, first), *y_at = cursor.at(2, first);
            T* dy_run = borrow_target<T>(dy_at, dy.dtype, walk.stride(0), count, dys);
            if (dy_run == dys) load(dy_at, dy.dtype, walk.stride(0), count, dys);
            T* y_run = borrow_target<T>(y_at, y.dtype, walk.stride(2), count, ys);
            both(f, borrow<T>(cursor.at(1, first), x.dtype, walk.stride(1), count, xs), dy_run, y_run, count);
            settle(dy_run, count, dy_at, dy.dtype, walk.stride(0));
            settle(y_run, count, y_at, y.dtype, walk.stride(2));
        });
    });
}

}  // namespace

void activate(CpuStream& stream, Activation activation, const View& x, const View& y) {
    if (activation == Activation::none) return copy(stream, x, y);
    with_function(activation, [&](auto f) {
        if constexpr (!std::is_same_v<decltype(f), Identity>) map(stream, f, x, y);
    });
}

void activate_backward(CpuStream& stream, Activation activation, const View& x, const View& dy, const View& y) {
    with_function(activation, [&](auto f) {
        using F = decltype(f);
        if (y.rank() != 0) {
            dy.dtype == Dtype::f64 ? pass<double>(stream, f, x, dy, y) : pass<float>(stream, f, x, dy, y);
        } else if constexpr (!std::is_same_v<F, Identity>) {
            map_backward(stream, f, x, dy, 0.0f, dy);  // ReLU's argument serves for its value
        }
    });
}

}  // namespace headroom::kernels
