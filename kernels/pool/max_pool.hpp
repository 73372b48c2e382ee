#pragma once
// Maxima over windows of images. The place of each maximum is kept as its number within the window, one byte for
// windows of up to 256 elements. The gradient reads only that, neither x nor y. For averages see resample/.
//
//     const MaxPool pool{{.kernel = 3, .stride = 2, .padding = 1}, {.kernel = 3, .stride = 2, .padding = 1}};
//     max_pool(stream, x, pool, y, place);                 // x [8, 64, 112, 112], y and place [8, 64, 56, 56]
//     max_pool_gradient(stream, dy, place, pool, 1, dx);   // dx += gradient
#include <cstdint>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Windows along one axis: element k of window o is input o stride - padding + k dilation, if that exists.
struct PoolAxis {
    struct Span {
        std::int64_t begin, end;
    };
    std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

    /// The elements of window o that lie inside an input of `size` positions.
    HEADROOM_DEVICE Span elements(std::int64_t o, std::int64_t size) const {
        const std::int64_t first = o * stride - padding, end = (size - first + dilation - 1) / dilation;
        return {first < 0 ? (dilation - 1 - first) / dilation : 0, end < kernel ? end : kernel};
    }
    HEADROOM_DEVICE std::int64_t input(std::int64_t o, std::int64_t k) const {
        return o * stride - padding + k * dilation;
    }
    /// The windows, out of `count`, that cover input i.
    HEADROOM_DEVICE Span windows(std::int64_t i, std::int64_t count) const {
        const std::int64_t last = (i + padding) / stride, first = i + padding - (kernel - 1) * dilation + stride - 1;
        return {first < 0 ? 0 : first / stride, last < count ? last + 1 : count};
    }
    /// The element of window o (one of `windows(i)`) that is input i; -1 if dilation skips it.
    HEADROOM_DEVICE std::int64_t element(std::int64_t i, std::int64_t o) const {
        const std::int64_t distance = i + padding - o * stride;
        return distance % dilation == 0 ? distance / dilation : -1;
    }
};

struct MaxPool {
    PoolAxis rows, columns;
};

/// y = the largest element of each window: NaN if one is NaN, -infinity if no element is inside x. place = its number
/// in the window, row by row: that of the first of equal elements, or of the last NaN. x [N, C, h, w], y and place [N,
/// C, H, W], any strides; x and y floating, place u8 or, for windows of more than 256 elements, i32. Fast if channels
/// are adjacent in memory.
void max_pool(CpuStream& stream, const View& x, const MaxPool& pool, const View& y, const View& place);
void max_pool(CudaStream& stream, const View& x, const MaxPool& pool, const View& y, const View& place);

/// dx = beta dx + the sum of dy over the windows whose maximum is this element, in window order. Computed in f64 if
/// either is f64, else in f32.
void max_pool_gradient(CpuStream& stream, const View& dy, const View& place, const MaxPool& pool, float beta,
                       const View& dx);
void max_pool_gradient(CudaStream& stream, const View& dy, const View& place, const MaxPool& pool, float beta,
                       const View& dx);

}  // namespace headroom::kernels
