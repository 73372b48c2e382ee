#include <headroom/data/feed.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <headroom/core/transfer.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {

template <class T>
HostArray::HostArray(std::span<const T> values, const Shape& shape)
    : view_(contiguous_view(const_cast<T*>(values.data()), kernels::dtype_of<T>, shape)) {
    if (static_cast<std::int64_t>(values.size()) != shape.numel()) {
        throw ShapeError(fmt::format("feed: {} values do not fill the shape {}", values.size(), shape.to_string()));
    }
}

template HostArray::HostArray(std::span<const float>, const Shape&);
template HostArray::HostArray(std::span<const double>, const Shape&);
template HostArray::HostArray(std::span<const std::int32_t>, const Shape&);
template HostArray::HostArray(std::span<const std::int64_t>, const Shape&);
template HostArray::HostArray(std::span<const std::uint8_t>, const Shape&);

struct Feed::Slot {
    std::vector<Buffer> rooms;                   ///< one for each array of a batch
    std::unique_ptr<kernels::CudaEvent> left;    ///< recorded after the last kernel that reads this slot
    std::unique_ptr<kernels::CudaEvent> filled;  ///< the copies have been made
    bool closed = false;                         ///< `left` is recorded: nothing that comes later uses this

    bool unused() const {
        return std::all_of(rooms.begin(), rooms.end(), [](const Buffer& room) { return room.unique(); });
    }
};

Feed::Feed(Context& context) : context_(context) {
    for (std::unique_ptr<Slot>& slot : slots_) {
        slot = std::make_unique<Slot>();
        if (CudaDevice* gpu = context.gpu()) {
            slot->left = gpu->make_event();
            slot->filled = gpu->make_event();
        }
    }
}

// A room goes back to the compute queue, which has waited for the copies into it.
Feed::~Feed() = default;

/// If its tensors are gone, what used them has been queued.
void Feed::close(Slot& slot) {
    if (slot.closed || !slot.unused()) return;
    if (CudaDevice* gpu = context_.gpu()) gpu->record(*slot.left, kernels::CudaQueue::compute);
    slot.closed = true;
}

/// Makes room and has it filled, beside what the compute queue does with the other slot.
void Feed::fill(Slot& slot, std::span<const HostArray> arrays) {
    const Exec& exec = context_.exec();
    if (slot.rooms.size() < arrays.size()) slot.rooms.resize(arrays.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        Buffer& room = slot.rooms[i];
        const std::size_t bytes = arrays[i].view().size_bytes();
        if (room.unique() && room.bytes() >= bytes) continue;
        room = {};
        slot.closed = false;  // compute may still be at work with what was there before
        room = exec.empty({static_cast<std::int64_t>(bytes)}, Dtype::u8, Category::inputs).buffer;
    }
    CudaDevice* const gpu = context_.gpu();
    if (!gpu) return;
    if (!slot.closed) gpu->record(*slot.left, kernels::CudaQueue::compute);
    gpu->wait(kernels::CudaQueue::uploads, *slot.left);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const View& host = arrays[i].view();
        gpu->copy_to_device(host.data, slot.rooms[i].data(), host.size_bytes(), kernels::CudaQueue::uploads);
    }
    gpu->record(*slot.filled, kernels::CudaQueue::uploads);
    gpu->wait(kernels::CudaQueue::compute, *slot.filled);
}

void Feed::place(std::span<const HostArray> arrays, std::span<Tensor> tensors) {
    Exec& exec = context_.exec();
    exec.set_path(context_.tape().path());
    if (!on_cuda(context_.stream())) {
        for (std::size_t i = 0; i < arrays.size(); ++i) {
            const View& host = arrays[i].view();
            const Array array = exec.empty(host.shape, host.dtype, Category::inputs);
            headroom::upload(exec, host, array);
            tensors[i] = context_.from_array(array);
        }
        return;
    }
    auto& [next, last] = slots_;
    close(*last);
    fill(*next, arrays);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const View& host = arrays[i].view();
        tensors[i] = context_.from_array({next->rooms[i], host.dtype, Geometry::contiguous(host.shape)});
    }
    next->closed = false;
    std::swap(next, last);
}

}  // namespace headroom::data
