#include <headroom/core/exec.hpp>

namespace headroom {

Array Exec::empty(const Shape& shape, Dtype dtype, Category category) const {
    const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    return {Buffer::allocate(*memory_, bytes, 0, {category, path_}), dtype, Geometry::contiguous(shape)};
}

Array Exec::output(const Shape& shape, Dtype dtype) {
    const auto bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    if (offered_ && offered_.bytes() == bytes) return {std::move(offered_), dtype, Geometry::contiguous(shape)};
    return empty(shape, dtype);
}

Scratch Exec::scratch(std::size_t bytes) const {
    return bytes == 0 ? Scratch{} : Buffer::allocate(*memory_, bytes, 0, {Category::workspace, path_});
}

}  // namespace headroom
