// Views of a tensor: arithmetic on sizes and strides.
#include <algorithm>

#include <fmt/format.h>

#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/clone.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// Replaces a -1 by what is left over.
Shape resolve(Shape wanted, const Shape& from) {
    Shape known = wanted;
    int open = -1;
    for (int i = 0; i < wanted.rank(); ++i) {
        if (wanted[i] == -1 && open < 0) {
            open = i;
            known[i] = 1;
        } else if (wanted[i] < 0) {
            throw ShapeError(fmt::format("reshape: {} has an invalid size (only one may be -1)", wanted.to_string()));
        }
    }
    if (!bytes_of(known, Dtype::u8)) {
        throw ShapeError(fmt::format("reshape: {} has too many elements", wanted.to_string()));
    }
    if (open >= 0) {
        if (known.numel() == 0 || from.numel() % known.numel() != 0) {
            throw ShapeError(fmt::format("reshape: {} does not divide into {}", from.to_string(), wanted.to_string()));
        }
        wanted[open] = from.numel() / known.numel();
    }
    if (wanted.numel() != from.numel()) {
        throw ShapeError(fmt::format("reshape: {} has {} elements, but {} has {}", from.to_string(), from.numel(),
                                     wanted.to_string(), wanted.numel()));
    }
    return wanted;
}

/// Strides that show `from` as `shape` without a copy; false if there are none. Runs of axes that follow one another in
/// memory are matched against runs of new axes with as many elements.
bool reshape_strides(const Geometry& from, const Shape& shape, Strides& strides) {
    for (int i = 0; i < shape.rank(); ++i) strides.push_back(0);
    int old_axis = from.shape.rank() - 1;
    int axis = shape.rank() - 1;
    while (axis >= 0) {
        while (old_axis >= 0 && from.shape[old_axis] == 1) --old_axis;
        if (shape[axis] == 1) {
            strides[axis] = axis + 1 < shape.rank() ? strides[axis + 1] * shape[axis + 1] : 1;
            --axis;
            continue;
        }
        std::int64_t step = from.strides[old_axis];
        std::int64_t run = from.shape[old_axis--];
        while (old_axis >= 0 && (from.shape[old_axis] == 1 || from.strides[old_axis] == step * run)) {
            run *= from.shape[old_axis--];
        }
        while (axis >= 0 && run % shape[axis] == 0 && (run > 1 || shape[axis] == 1)) {
            strides[axis] = step;
            step *= shape[axis];
            run /= shape[axis--];
        }
        if (run != 1) return false;
    }
    return true;
}

/// `index`, or what it counts from the back if it is negative.
std::int64_t position_in(const char* who, const Shape& shape, int axis, std::int64_t index) {
    const std::int64_t position = index < 0 ? index + shape[axis] : index;
    if (position < 0 || position >= shape[axis])
        throw ShapeError(fmt::format("{}: index {} is outside of axis {} of {}", who, index, axis, shape.to_string()));
    return position;
}

}  // namespace

Tensor Tensor::with(Shape shape, Strides strides, std::int64_t offset) const {
    return Tensor(value_, Geometry{shape, strides, offset});
}

std::int64_t Tensor::size(int axis) const { return geometry_.shape[check_axis("size", checked("size").shape(), axis)]; }

Tensor Tensor::reshape(Shape shape) const {
    shape = resolve(shape, checked("reshape").shape());
    if (is_contiguous()) return with(shape, contiguous_strides(shape), geometry_.offset);
    Strides strides;
    if (reshape_strides(geometry_, shape, strides)) return with(shape, strides, geometry_.offset);
    return contiguous().reshape(shape);
}

Tensor Tensor::transpose(int a, int b) const {
    Geometry result = checked("transpose").geometry_;
    a = check_axis_or_scalar("transpose", shape(), a);
    b = check_axis_or_scalar("transpose", shape(), b);
    std::swap(result.shape[a], result.shape[b]);
    std::swap(result.strides[a], result.strides[b]);
    return Tensor(value_, result);
}

Tensor Tensor::permute(std::span<const int> order) const {
    checked("permute");
    Shape shape;
    Strides strides;
    unsigned seen = 0;
    for (const int wanted : order) {
        const int axis = check_axis("permute", this->shape(), wanted);
        seen |= 1u << axis;
        shape.push_back(geometry_.shape[axis]);
        strides.push_back(geometry_.strides[axis]);
    }
    if (shape.rank() != rank() || seen != (1u << rank()) - 1) {
        throw ShapeError(fmt::format("permute: the order must name each of the {} axes once", rank()));
    }
    return with(shape, strides, geometry_.offset);
}

Tensor Tensor::operator[](std::initializer_list<TensorIndex> indices) const {
    using Kind = TensorIndex::Kind;
    const auto ellipses = std::count_if(indices.begin(), indices.end(),
                                        [](const TensorIndex& index) { return index.kind == Kind::ellipsis; });
    const int named = static_cast<int>(indices.size()) - static_cast<int>(ellipses);
    if (ellipses > 1 || named > rank()) {
        throw ShapeError(
            fmt::format("[]: {} indices and {} Ellipsis do not fit the {} axes of {}; use at most one Ellipsis", named,
                        ellipses, rank(), shape().to_string()));
    }
    Tensor result = *this;
    int axis = 0, dropped = 0;  // of this tensor's axes
    for (const auto& [kind, range] : indices) {
        if (kind == Kind::position) {
            const std::int64_t position = position_in("[]", shape(), axis, range.start);
            result = result.select(axis++ - dropped++, position);
        } else if (kind == Kind::slice) {
            const std::int64_t stop = range.stop == Slice::kEnd ? size(axis) : range.stop;
            result = result.slice(axis++ - dropped, range.start, stop, range.step);
        } else {
            axis += rank() - named;
        }
    }
    return result;
}

Tensor Tensor::slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step) const {
    axis = check_axis("slice", checked("slice").shape(), axis);
    if (step < 1) throw ShapeError(fmt::format("slice: the step must be positive, got {}", step));
    const std::int64_t size = geometry_.shape[axis];
    const auto inside = [size](std::int64_t position) {
        return std::clamp<std::int64_t>(position < 0 ? position + size : position, 0, size);
    };
    const std::int64_t first = inside(start);
    const std::int64_t last = std::max(first, inside(stop));
    Geometry result = geometry_;
    result.shape[axis] = (last - first) / step + ((last - first) % step != 0 ? 1 : 0);
    result.strides[axis] *= step;
    result.offset += first * geometry_.strides[axis];
    return Tensor(value_, result);
}

Tensor Tensor::select(int axis, std::int64_t index) const {
    axis = check_axis("select", checked("select").shape(), axis);
    const std::int64_t position = position_in("select", shape(), axis, index);
    return slice(axis, position, position + 1).squeeze(axis);
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, int axis) const {
    axis = check_axis("split", checked("split").shape(), axis);
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) {
        if (size < 0) throw ShapeError(fmt::format("split: the size of a part must not be negative, got {}", size));
        total += size;
    }
    if (total != geometry_.shape[axis]) {
        throw ShapeError(fmt::format("split: the parts add up to {}, but axis {} of {} has {}", total, axis,
                                     shape().to_string(), geometry_.shape[axis]));
    }
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (const std::int64_t size : sizes) {
        parts.push_back(slice(axis, start, start + size));
        start += size;
    }
    return parts;
}

std::vector<Tensor> Tensor::split(std::int64_t part, int axis) const {
    if (part < 1) throw ShapeError(fmt::format("split: the size of a part must be positive, got {}", part));
    std::vector<std::int64_t> sizes;
    axis = check_axis("split", checked("split").shape(), axis);
    for (std::int64_t left = geometry_.shape[axis]; left > 0; left -= part) sizes.push_back(std::min(part, left));
    return split(sizes, axis);
}

Tensor Tensor::squeeze(int axis) const {
    axis = check_axis_or_scalar("squeeze", checked("squeeze").shape(), axis);
    if (rank() == 0) return *this;
    if (geometry_.shape[axis] != 1) {
        throw ShapeError(fmt::format("squeeze: axis {} of {} does not have size 1", axis, shape().to_string()));
    }
    Geometry result = geometry_;
    result.shape.erase(axis);
    result.strides.erase(axis);
    return Tensor(value_, result);
}

Tensor Tensor::unsqueeze(int axis) const {
    const int position = axis < 0 ? axis + checked("unsqueeze").rank() + 1 : axis;
    if (position < 0 || position > rank()) {
        throw ShapeError(fmt::format("unsqueeze: position {} is outside of a shape with {} axes", axis, rank()));
    }
    Geometry result = geometry_;
    result.shape.insert(position, 1);
    result.strides.insert(position, position < rank() ? geometry_.strides[position] * geometry_.shape[position] : 1);
    return Tensor(value_, result);
}

Tensor Tensor::contiguous(MemoryFormat format) const { return headroom::contiguous(checked("contiguous"), format); }

Tensor Tensor::clone() const { return headroom::clone(checked("clone")); }

}  // namespace headroom
