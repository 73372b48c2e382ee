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
