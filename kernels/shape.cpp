#include <headroom/kernels/shape.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

std::string Extents::to_string() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

void Extents::throw_rank() { throw ShapeError(fmt::format("a tensor has at most {} axes", kMaxRank)); }

int Shape::axis(int axis) const {
    if (axis < -rank() || axis >= rank()) {
        throw ShapeError(fmt::format("axis {} is outside of a shape with {} axes: {}", axis, rank(), to_string()));
    }
    return axis < 0 ? axis + rank() : axis;
}

Strides dense_strides(const Shape& shape, const Strides& like) {
    if (is_contiguous(shape, like)) return contiguous_strides(shape);  // also without elements
    std::array<int, kMaxRank> axes{};                                  // from the outermost on
    for (int i = 0; i < shape.rank(); ++i) {
        auto place = axes.begin() + i;
        for (; place != axes.begin() && like[place[-1]] < like[i]; --place) *place = place[-1];
        *place = i;
    }
    Strides strides = like;
    std::int64_t step = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
        const int axis = axes[static_cast<std::size_t>(i)];
        strides[axis] = step;
        step *= shape[axis];
    }
    std::int64_t extent = 1;  // of the axes behind
    for (int i = shape.rank() - 1; i >= 0; --i) {
        if (shape[i] == 1) strides[i] = extent;
        extent = std::max(extent, strides[i] * shape[i]);
    }
    return strides;
}

Strides dense_strides(const Shape& shape, MemoryFormat format) {
    Strides order = contiguous_strides(shape);
    if (format == MemoryFormat::contiguous) return order;
    if (shape.rank() < 3) {
        throw ShapeError(
            fmt::format("channels_last: {} must have the axes [N, C, ...], three or more", shape.to_string()));
    }
    order[1] = 0;
    return dense_strides(shape, order);
}

bool is_contiguous(const Shape& shape, const Strides& strides, MemoryFormat format) {
    if (format == MemoryFormat::contiguous) return is_contiguous(shape, strides);
    return shape.rank() >= 3 && same_strides(shape, strides, dense_strides(shape, format));
}

bool is_dense(const Shape& shape, const Strides& strides) {
    return is_contiguous(shape, strides) || same_strides(shape, strides, dense_strides(shape, strides));
}

bool same_strides(const Shape& shape, const Strides& a, const Strides& b) {
    for (int i = 0; i < shape.rank(); ++i) {
        if (shape[i] != 1 && a[i] != b[i]) return shape.numel() == 0;
    }
    return true;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
    const int rank = std::max(a.rank(), b.rank());
    Shape result;
    for (int i = 0; i < rank; ++i) {
        const int ia = i - (rank - a.rank());
        const int ib = i - (rank - b.rank());
        const std::int64_t size_a = ia < 0 ? 1 : a[ia];
        const std::int64_t size_b = ib < 0 ? 1 : b[ib];
        if (size_a != size_b && size_a != 1 && size_b != 1) {
            throw ShapeError(fmt::format("{}: shapes {} and {} do not broadcast", op, a.to_string(), b.to_string()));
        }
        result.push_back(size_a == 1 ? size_b : size_a);
    }
    return result;
}

}  // namespace headroom::kernels
