#pragma once
// The data type that ops compute with: a reference-counted buffer, a dtype and a geometry. An array does not refer to
// gradients, modules, contexts or the tape, so an op that has only arrays is pure. Users hold a `Tensor` instead.
//
//     Array y = exec.empty({2, 3}, Dtype::f32);
//     exec.launch([&](auto& stream) { kernels::fill(stream, 1.0, y.view()); });
//     if (!bias.defined()) { ... }  // an optional input that was not given
#include <cstdint>
#include <optional>

#include <headroom/core/types.hpp>

namespace headroom {

/// Sizes, strides and offset of the first element (in elements from the start of the buffer).
struct Geometry {
    Shape shape;
    Strides strides;
    std::int64_t offset = 0;

    static Geometry contiguous(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }
    friend bool operator==(const Geometry&, const Geometry&) = default;
};

/// True if both map the same elements to the same places. Two row-major geometries may differ in shape.
inline bool same_places(const Geometry& a, const Geometry& b) {
    if (a.offset != b.offset) return false;
    if (is_contiguous(a.shape, a.strides) && is_contiguous(b.shape, b.strides))
        return a.shape.numel() == b.shape.numel();
    return a.shape == b.shape && same_strides(a.shape, a.strides, b.strides);
}

/// Bytes of an array without gaps; none for a negative size, or if bytes or strides don't fit in 63 bits.
constexpr std::optional<std::int64_t> bytes_of(const Shape& shape, Dtype dtype) {
    auto bytes = static_cast<std::int64_t>(size_of(dtype));
    bool empty = false;
    for (const std::int64_t size : shape) {
        empty |= size == 0;  // strides count such an axis as 1
        if (size < 0 || __builtin_mul_overflow(bytes, size == 0 ? 1 : size, &bytes)) return {};
    }
    return empty ? 0 : bytes;
}

struct Array {
    Buffer buffer;
    Dtype dtype = Dtype::f32;
    Geometry geometry;

    bool defined() const { return static_cast<bool>(buffer); }
    const Shape& shape() const { return geometry.shape; }
    const Strides& strides() const { return geometry.strides; }
    int rank() const { return geometry.shape.rank(); }
    /// The size of an axis; negative axes count from the back. Errors: ShapeError.
    std::int64_t size(int axis) const { return geometry.shape[geometry.shape.axis(axis)]; }
    std::int64_t numel() const { return geometry.shape.numel(); }
    /// Of its elements, without gaps.
    std::size_t size_bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype); }
    bool is_contiguous() const { return kernels::is_contiguous(geometry.shape, geometry.strides); }
    /// Always inlined: a View has over 100 bytes, and inlining writes them directly where they are used.
    [[gnu::always_inline]] View view() const {
        std::byte* data = buffer.data();
        if (data) data += geometry.offset * static_cast<std::int64_t>(size_of(dtype));
        return {data, dtype, geometry.shape, geometry.strides};
    }
};

/// [count]: elements `first`, `first` + 1, ... of an array without gaps.
inline Array part(const Array& whole, std::int64_t first, std::int64_t count) {
    Array slice = whole;
    slice.geometry = Geometry::contiguous({count});
    slice.geometry.offset = whole.geometry.offset + first;
    return slice;
}

}  // namespace headroom
