#include <headroom/nn/path.hpp>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::nn {

Path Path::operator/(std::string_view name) const {
    if (name.empty() || name.find('.') != std::string_view::npos) {
        throw Error(
            fmt::format("path: \"{}\" is not a path segment; a segment must not be empty or contain a dot", name));
    }
    Path below = *this;
    if (!below.path_.empty()) below.path_ += '.';
    below.path_ += name;
    return below;
}

Tensor Path::parameter(std::string_view name, const Shape& shape, Initializer initializer, MemoryFormat format) const {
    return parameters_->create((*this / name).path_, shape, std::move(initializer), format);
}

Tensor Path::buffer(std::string_view name, const Shape& shape, Initializer initializer, Dtype dtype) const {
    return parameters_->create_buffer((*this / name).path_, shape, std::move(initializer), dtype);
}

}  // namespace headroom::nn
