#include <headroom/core/exec.hpp>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>

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

Exec::RangeScope::RangeScope(const Exec& exec, const CudaStream& stream) {
    if (!stream.device->profiled()) return;
    device_ = stream.device;
    device_->open_range(fmt::format("{} {}", exec.op_, exec.path_text(exec.path_)).c_str());
}

Exec::RangeScope::~RangeScope() {
    if (device_) device_->close_range();
}

void Exec::fail(const DeviceError& error) const {
    std::string where = op_;
    for (const Array& array : arrays_) {
        if (array.defined()) where += fmt::format(" {} {}", name(array.dtype), array.shape().text());
    }
    const std::string path = path_text(path_);
    if (!path.empty()) where += fmt::format("{}in {}", where.empty() ? "" : ", ", path);
    throw DeviceError(where.empty() ? error.what() : fmt::format("{}: {}", where, error.what()));
}

}  // namespace headroom
