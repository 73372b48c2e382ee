#include <headroom/core/transfer.hpp>

#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

/// The array itself if its elements lie as the host's do, else room for a copy that does.
Array like_host(const Exec& exec, const Array& array, const View& host) {
    const bool same = array.dtype == host.dtype && array.is_contiguous();
    return same ? array : exec.empty(array.shape(), host.dtype, Category::workspace);
}

void report(const Exec& exec, CudaDevice& device) {
    const std::optional<kernels::IndexError> error = device.take_index_error();
    if (!error) return;
    ShapeError refused(fmt::format("{} {} at position {} is outside of [{}, {})", error->what, error->value,
                                   error->position, error->first, error->bound));
    refused.add_path(exec.path_text(error->path));
    throw refused;
}

}  // namespace

void WorkPoint::mark(const Exec& exec) {
    if (auto* cuda = std::get_if<CudaStream>(&exec.stream())) {
        if (!event_) event_ = cuda->device->make_event();
        cuda->device->record(*event_, kernels::CudaQueue::compute);
    }
}

void check_memory(std::string_view what, const Exec& exec, const Array& array) {
    if (!array.defined()) throw Error(fmt::format("{}: the array is undefined", what));
    const DeviceMemory* memory = array.buffer.memory();
    if (!memory || memory == &exec.memory()) return;
    throw Error(fmt::format("{}: the array belongs to another context, in memory \"{}\" instead of \"{}\"", what,
                            memory->properties().name, exec.memory().properties().name));
}

void upload(const Exec& exec, const View& host, const Array& array) {
    check_memory("upload", exec, array);
    exec.check_not_captured("a copy from the host");
    if (!on_cuda(exec.stream())) {
        return exec.launch([&](auto& stream) { kernels::copy(stream, host, array.view()); });
    }
    const Array dense = like_host(exec, array, host);
    if (auto* cuda = std::get_if<CudaStream>(&exec.stream())) {
        cuda->device->copy_to_device(host.data, dense.view().data, host.size_bytes());
    }
    if (!dense.buffer.same(array.buffer)) {
        exec.launch([&](auto& stream) { kernels::copy(stream, dense.view(), array.view()); });
    }
}

void download(const Exec& exec, const Array& array, const View& host, const WorkPoint* after) {
    check_memory("download", exec, array);
    exec.check_not_captured("a copy to the host");
    if (!on_cuda(exec.stream())) {
        return exec.launch([&](auto& stream) { kernels::copy(stream, array.view(), host); });
    }
    const Array dense = like_host(exec, array, host);
    const bool converted = !dense.buffer.same(array.buffer);
    if (converted) exec.launch([&](auto& stream) { kernels::copy(stream, array.view(), dense.view()); });
    if (auto* cuda = std::get_if<CudaStream>(&exec.stream())) {
        const kernels::CudaEvent* const event = after && !converted ? after->event() : nullptr;
        cuda->device->copy_to_host(dense.view().data, host.data, host.size_bytes(), event);
        report(exec, *cuda->device);
    }
}

bool on_host(const Array& array) {
    const DeviceMemory* memory = array.buffer.memory();
    return !memory || (memory->properties().touchable && memory->properties().synchronous);
}

}  // namespace headroom
