#pragma once
// Images [N, C, H, W] for CUDA kernels that compute a result from several pixels: one thread per element of the result,
// or per eight adjacent channels of it, in the memory order of the result. The other images have the same N and C, and
// any H and W. Created on the host, passed to a kernel by value.
//
//     const Images<2> images({&y, &x}, width);                    // host; the result first
//     for (std::int64_t i = block.global_thread(); i < images.numel(); i += block.global_threads()) {
//         const auto at = images.at(i);                           // kernel: at.h and at.w are y's
//         images.store<C, W>(block, at, beta, images.load<C, W>(block, 1, at, 2 * at.h, 2 * at.w));
//     }
#include <algorithm>
#include <bit>
#include <cstdint>

#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/row_access.hpp>

namespace headroom::kernels::device {

inline constexpr unsigned kImageThreads = 256;  ///< threads per block

/// True if eight adjacent channels of each pixel can be accessed in units of up to 16 bytes.
inline bool takes_eight_channels(const View& x) {
    const auto size = static_cast<std::int64_t>(size_of(x.dtype)), bytes = std::min<std::int64_t>(16, 8 * size);
    bool aligned = std::bit_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(bytes) == 0;
    for (const int axis : {0, 2, 3}) aligned = aligned && (x.size(axis) == 1 || x.stride(axis) * size % bytes == 0);
    const bool moved = x.dtype == Dtype::f32 || is_half(x.dtype) || x.dtype == Dtype::u8;
    return aligned && moved && x.stride(1) == 1 && x.size(1) % 8 == 0;
}

/// W adjacent channels; W = 8 requires `takes_eight_channels`.
template <class C, int W>
HEADROOM_DEVICE Items<C, W> load_channels(Block& block, const void* p, Dtype dtype, std::int64_t offset) {
    if constexpr (W == 8) {
        return load_eight(block, p, dtype, offset);
    } else {
        return {{load_as<C>(p, dtype, offset)}};
    }
}
/// p = beta p + values; with beta = 0, p is not read.
template <class C, int W>
HEADROOM_DEVICE void store_channels(Block& block, void* p, Dtype dtype, std::int64_t offset, float beta,
                                    Items<C, W> values) {
    if constexpr (W == 8) {
        if (beta != 0.0f) {
            const Floats<8> before = load_eight(block, p, dtype, offset);
#pragma unroll
            for (int k = 0; k < W; ++k) values[k] += beta * before[k];
        }
        store_eight(block, p, dtype, offset, values);
    } else {
        accumulate_as<C>(p, dtype, offset, beta, values[0]);
    }
}

/// N images, at most three. Trivially copyable.
template <int N>
class Images {
  public:
    static_assert(N + 2 <= kernels::kMaxOperands);
    /// A position in the result, and the offsets of the same image and channel in the other images.
    struct Place {
        std::int64_t offset[N];
        std::int64_t h, w;
    };

    /// `width` channels at a time: 8 or 1.
    Images(const View* const (&views)[N], std::int64_t width) {
        View walked[N + 2];  // the result, the others' first pixels, and the coordinates
        const View* pointers[N + 2];
        for (int k = 0; k < N + 2; ++k) {
            Shape shape = views[0]->shape;
            shape[1] /= width;
            Strides strides{0, 0, k == N ? 1 : 0, k == N + 1 ? 1 : 0};
            if (k < N) strides[0] = views[k]->stride(0), strides[1] = views[k]->stride(1) * width;
            if (k == 0) strides[2] = views[0]->stride(2), strides[3] = views[0]->stride(3);
            walked[k] = {nullptr, Dtype::f32, shape, strides};
            pointers[k] = &walked[k];
        }
        axes_ = StridedAxes<N + 2>(kernels::Walk(pointers, N + 2), N + 2);
        for (int k = 0; k < N; ++k) {
            data_[k] = views[k]->data;
            dtype_[k] = views[k]->dtype;
            row_[k] = views[k]->stride(2);
            column_[k] = views[k]->stride(3);
        }
    }

    HEADROOM_DEVICE std::int64_t numel() const { return axes_.numel(); }
    HEADROOM_DEVICE Place at(std::int64_t i) const {
        const Offsets<N + 2> offsets = axes_.offsets(i);
        Place place;
#pragma unroll
        for (int k = 0; k < N; ++k) place.offset[k] = offsets[k];
        place.h = offsets[N], place.w = offsets[N + 1];
        return place;
    }

    /// W channels of pixel (h, w) of image k > 0.
    template <class C, int W>
    HEADROOM_DEVICE Items<C, W> load(Block& block, int k, const Place& at, std::int64_t h, std::int64_t w) const {
        return load_channels<C, W>(block, data_[k], dtype_[k], at.offset[k] + h * row_[k] + w * column_[k]);
    }
    /// result = beta * result + values; with beta = 0, it is not read.
    template <class C, int W>
    HEADROOM_DEVICE void store(Block& block, const Place& at, float beta, const Items<C, W>& values) const {
        store_channels<C, W>(block, data_[0], dtype_[0], at.offset[0], beta, values);
    }

    /// W small integers of image k; bytes if W is 8.
    template <int W>
    HEADROOM_DEVICE void load_numbers(Block& block, int k, const Place& at, std::int64_t h, std::int64_t w,
                                      int (&numbers)[W]) const {
        const std::int64_t offset = at.offset[k] + h * row_[k] + w * column_[k];
        if constexpr (W == 8) {
            const auto bytes = block.load<8>(static_cast<const std::uint8_t*>(data_[k]) + offset);
#pragma unroll
            for (int i = 0; i < W; ++i) numbers[i] = bytes[i];
        } else {
            numbers[0] = static_cast<int>(load_as<std::int64_t>(data_[k], dtype_[k], offset));
        }
    }
    template <int W>
    HEADROOM_DEVICE void store_numbers(Block& block, int k, const Place& at, const int (&numbers)[W]) const {
        const std::int64_t offset = at.offset[k] + at.h * row_[k] + at.w * column_[k];
        if constexpr (W == 8) {
            Vector<std::uint8_t, 8> bytes;
#pragma unroll
            for (int i = 0; i < W; ++i) bytes[i] = static_cast<std::uint8_t>(numbers[i]);
            block.store(static_cast<std::uint8_t*>(data_[k]) + offset, bytes);
        } else {
            store_as<std::int64_t>(data_[k], dtype_[k], offset, numbers[0]);
        }
    }

  private:
    StridedAxes<N + 2> axes_;
    void* data_[N];
    Dtype dtype_[N];
    std::int64_t row_[N], column_[N];
};

/// Launches `Kernel<C, W>{parameters}` for the images, with W = 8 if all of them allow it.
template <template <class, int> class Kernel, int N, class... Parameters>
void launch_images(CudaStream& stream, Dtype compute, const View* const (&views)[N], const Parameters&... parameters) {
    const auto start = [&]<class C, int W>(Kernel<C, W> kernel) {
        const Images<N> images(views, W);
        launch(stream, {.x = grid_for(stream, images.numel(), kImageThreads), .loops = true, .threads = kImageThreads},
               kernel, images);
    };
    if (compute == Dtype::f64) return start(Kernel<double, 1>{parameters...});
    bool eights = true;
    for (const View* view : views) eights = eights && takes_eight_channels(*view);
    eights ? start(Kernel<float, 8>{parameters...}) : start(Kernel<float, 1>{parameters...});
}

}  // namespace headroom::kernels::device
