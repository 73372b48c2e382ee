#pragma once
// Describes an array to a kernel: address, dtype, sizes, strides. A view owns and allocates nothing. A stride of 0
// repeats an element (broadcasting) and is only for reading.
//
//     float values[6] = {0, 1, 2, 3, 4, 5};
//     View x{values, Dtype::f32, {2, 3}, {3, 1}};
//     kernels::softmax(stream, x, x);
#include <cstddef>
#include <cstdint>
#include <utility>

#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/shape.hpp>

namespace headroom::kernels {

struct View {
    void* data = nullptr;
    Dtype dtype = Dtype::f32;
    Shape shape;
    Strides strides;

    int rank() const { return shape.rank(); }
    std::int64_t size(int axis) const { return shape[axis]; }
    std::int64_t stride(int axis) const { return strides[axis]; }
    std::int64_t numel() const { return shape.numel(); }
    /// Of its elements, without gaps.
    std::size_t size_bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype); }
    bool is_contiguous() const { return kernels::is_contiguous(shape, strides); }
    template <class T>
    T* as() const {
        return static_cast<T*>(data);
    }
    /// The address `elements` elements after the start.
    std::byte* at(std::int64_t elements) const {
        return static_cast<std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
    }
};

/// A row-major view of memory.
inline View contiguous_view(void* data, Dtype dtype, const Shape& shape) {
    return {data, dtype, shape, contiguous_strides(shape)};
}

/// `x` with a larger shape: axes of size 1 and missing leading axes get stride 0. The shape must come from
/// `broadcast_shapes`.
inline View broadcast_to(View x, const Shape& shape) {
    Strides strides;
    const int missing = shape.rank() - x.rank();
    for (int i = 0; i < shape.rank(); ++i) {
        strides.push_back(i < missing || x.shape[i - missing] == 1 ? 0 : x.strides[i - missing]);
    }
    return {x.data, x.dtype, shape, strides};
}

/// `x` with its axes in the memory order of the strides `like`, outermost first: for kernels that visit rows of several
/// views in the order of one of them.
inline View in_order_of(View x, const Strides& like) {
    Strides order = like;
    for (int i = 1; i < x.rank(); ++i) {
        for (int j = i; j > 0 && order[j - 1] < order[j]; --j) {
            std::swap(order[j - 1], order[j]);
            std::swap(x.shape[j - 1], x.shape[j]);
            std::swap(x.strides[j - 1], x.strides[j]);
        }
    }
    return x;
}

}  // namespace headroom::kernels
