#pragma once
// Arguments of the CUDA kernels of recurrent networks: matrices with any strides and dtypes, and which sequences have
// ended.
//
//     const Matrix h(view);                            // host
//     const float value = h.load<float>(row, column);  // kernel
#include <algorithm>
#include <cstdint>

#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels::device {

struct Matrix {
    void* data;
    Dtype dtype;
    std::int64_t row = 0, column = 0;

    /// A view of rank 0 means none.
    explicit Matrix(const View& view) : data(view.data), dtype(view.dtype) {
        if (view.rank() == 0) {
            data = nullptr;
        } else {
            row = view.stride(0), column = view.stride(1);
        }
    }
    HEADROOM_DEVICE bool given() const { return data != nullptr; }
    template <class C>
    HEADROOM_DEVICE C load(std::int64_t i, std::int64_t j) const {
        return load_as<C>(data, dtype, i * row + j * column);
    }
    template <class C>
    HEADROOM_DEVICE void store(std::int64_t i, std::int64_t j, C value) const {
        store_as<C>(data, dtype, i * row + j * column, value);
    }
};

/// The index of each sequence's last element; without them, none ends early.
struct Ends {
    const void* data;
    Dtype dtype;
    std::int64_t stride;

    explicit Ends(const View& view)
        : data(view.rank() == 0 ? nullptr : view.data),
          dtype(view.dtype),
          stride(view.rank() == 0 ? 0 : view.stride(0)) {}
    HEADROOM_DEVICE std::int64_t last(std::int64_t row) const {
        return load_as<std::int64_t>(data, dtype, row * stride);
    }
    HEADROOM_DEVICE bool ended(std::int64_t row, std::int64_t time) const {
        return data != nullptr && time > last(row);
    }
};

inline constexpr unsigned kStepThreads = 256;

/// A looping launch with a thread per element; for few elements, only as many warps as they fill.
inline LaunchShape step_shape(const CudaStream& stream, std::int64_t elements) {
    const std::int64_t warps = std::min<std::int64_t>((elements + kWarp - 1) / kWarp, kStepThreads / kWarp);
    const auto threads = static_cast<unsigned>(warps * kWarp);
    return {.x = grid_for(stream, elements, std::max(threads, 1u)), .loops = true, .threads = threads};
}

}  // namespace headroom::kernels::device
