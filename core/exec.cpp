#include <headroom/core/exec.hpp>

#include <bit>

#include <fmt/format.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/fill/fill.hpp>

namespace headroom {

namespace {

/// Null: row-major.
Strides dense_like(const Shape& shape, const Strides* like) {
    return like ? kernels::dense_strides(shape, *like) : contiguous_strides(shape);
}

}  // namespace

Array Exec::allocate(const Shape& shape, const Strides* like, Dtype dtype, memory::Tag tag) const {
    if (dtype == Dtype::bf16 && tag.category != static_cast<memory::CategoryId>(Category::workspace))
        check_dtype(op_, dtype);
    const std::optional<std::int64_t> bytes = bytes_of(shape, dtype);
    if (!bytes) {
        throw ShapeError(fmt::format("{}{}the shape {} has a negative size or too many elements", op_, *op_ ? ": " : "",
                                     shape.to_string()));
    }
    return {allocate(static_cast<std::size_t>(*bytes), tag), dtype, {shape, dense_like(shape, like)}};
}

Buffer Exec::allocate(std::size_t bytes, memory::Tag tag) const {
    Buffer buffer = Buffer::allocate(*memory_, bytes, 0, tag, pool_);
    if (fills_memory_) {
        const View all = contiguous_view(buffer.data(), Dtype::u8, {static_cast<std::int64_t>(bytes)});
        launch([&](auto& stream) { kernels::fill(stream, 255, all); });
    }
    return buffer;
}

Array Exec::empty(const Shape& shape, Dtype dtype, Category category) const {
    return allocate(shape, nullptr, dtype, tag(category));
}

Array Exec::empty_like(const Shape& shape, const Strides& like, Dtype dtype, Category category) const {
    return allocate(shape, &like, dtype, tag(category));
}

/// The op is named for a history only: its name must be looked up.
memory::Tag Exec::tag(Category category) const {
    return {static_cast<memory::CategoryId>(category), path_, memory_->keeps_history() ? memory_->intern(op_) : 0};
}

Array Exec::empty_for_model(const Shape& shape, Dtype dtype, Category category) const {
    return allocate(shape, nullptr, dtype, {.category = static_cast<memory::CategoryId>(category)});
}

/// The strides of the array whose geometry is handed on; null for a row-major one.
const Strides* Exec::handed_on(const Shape& shape) const {
    const Strides* with_gaps = nullptr;
    for (const Array& array : arrays_) {
        const bool same = &array.shape() == &shape || array.shape() == shape;  // most ops pass their input's own
        if (!same || !array.defined()) continue;
        if (array.is_contiguous()) return nullptr;
        if (is_dense(shape, array.strides())) return &array.strides();
        if (!with_gaps) with_gaps = &array.strides();
    }
    return with_gaps;
}

Array Exec::fresh_output(const Shape& shape, Dtype dtype, Category category) const {
    return allocate(shape, handed_on(shape), dtype, tag(category));
}

Array Exec::output(const Shape& shape, Dtype dtype, unsigned kept) {
    const Strides* const like = handed_on(shape);
    for (unsigned rest = offered_ & ~kept; rest; rest &= rest - 1) {
        const Array& input = arrays_[static_cast<std::size_t>(std::countr_zero(rest))];
        if (input.dtype != dtype || input.shape() != shape) continue;
        if (like ? !same_strides(shape, input.strides(), *like) : !input.is_contiguous()) continue;
        offered_ = 0;  // a second output has storage of its own
        return {input.buffer, dtype, {shape, dense_like(shape, like), input.geometry.offset}};
    }
    return allocate(shape, like, dtype, tag(Category::activations));
}

Scratch Exec::scratch(std::size_t bytes) const {
    return bytes == 0 ? Scratch{} : allocate(bytes, tag(Category::workspace));
}

Exec::RangeScope::RangeScope(const Exec& exec, const CudaStream& stream) {
    if (!stream.device->profiled()) return;
    device_ = stream.device;
    device_->open_range(fmt::format("{} {}", exec.op_, exec.path_text(exec.path_)).c_str());
}

Exec::RangeScope::~RangeScope() {
    if (device_) device_->close_range();
}

bool Exec::profiled() const {
    const auto* cuda = std::get_if<CudaStream>(stream_);
    return cuda && cuda->device->profiled();
}

void Exec::mark(const std::string& text) const {
    if (!profiled()) return;
    CudaDevice& device = *std::get<CudaStream>(*stream_).device;
    device.open_range(text.c_str());
    device.close_range();
}

void Exec::check_dtype(const char* what, Dtype dtype) const {
    const int capability = kernels::capability_of(*stream_);
    if (dtype != Dtype::bf16 || capability == 0 || capability >= kernels::device::kBf16Capability) return;
    throw DtypeError(
        fmt::format("{}{}bf16 needs a GPU of compute capability {}, but this one has {}: use f16 (--dtype f16)", what,
                    *what ? ": " : "", kernels::capability_text(kernels::device::kBf16Capability),
                    kernels::capability_text(capability)));
}

void Exec::check_not_captured(const char* what) const {
    if (capturing_) throw CaptureError(fmt::format("{} is not possible while work is captured into a graph", what));
}

void Exec::fail(const DeviceError& error) const {
    std::string where = op_;
    for (const Array& array : arrays_) {
        if (array.defined()) where += fmt::format(" {} {}", name(array.dtype), array.shape().to_string());
    }
    DeviceError located(where.empty() ? error.what() : fmt::format("{}: {}", where, error.what()));
    located.add_path(path_text(path_));
    throw located;
}

}  // namespace headroom
