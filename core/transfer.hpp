#pragma once
// Copies between host memory and arrays on any device. In a training step, only `download` waits for a GPU. Ops never
// see the host, so they don't use it; for training batches, see data/feed.hpp.
//
//     upload(exec, contiguous_view(values.data(), Dtype::f32, shape), array);
//     const WorkPoint uploaded(exec);                                                     // waits for nothing
//     download(exec, array, contiguous_view(doubles.data(), Dtype::f64, array.shape()));  // waits for all, converts
//     download(exec, array, contiguous_view(values.data(), Dtype::f32, shape), &uploaded);
#include <memory>
#include <string_view>

#include <headroom/core/array.hpp>
#include <headroom/core/exec.hpp>

namespace headroom::kernels {
class CudaEvent;  // kernels/device/cuda_device.hpp
}

namespace headroom {

/// A point in a context's queue: stands for all work queued before it. Copies of a WorkPoint share the point and move
/// together. Empty in a dry run and on a CPU, where calls return when their work is done.
class WorkPoint {
  public:
    WorkPoint() = default;
    explicit WorkPoint(const Exec& exec) { mark(exec); }
    /// Moves it to the current end of the queue. All calls must use the same context. Errors: DeviceError.
    void mark(const Exec& exec);
    const kernels::CudaEvent* event() const { return event_.get(); }

  private:
    std::shared_ptr<kernels::CudaEvent> event_;
};

/// array = host, converted as by `kernels::copy`. `host` is row-major and may be overwritten once this returns. On a
/// GPU, another dtype needs temporary memory there. A dry run copies nothing. Errors: OutOfMemory, DeviceError; Error
/// if the array belongs to another context.
void upload(const Exec& exec, const View& host, const Array& array);

/// host = array, converted likewise; `host` is row-major. With `after`, waits only for work queued before that point;
/// later work must not write to the array. (If a GPU must convert, it waits for all work.) Errors: as `upload`;
/// ShapeError if an op met an index out of range since the last download, which a GPU reports here.
void download(const Exec& exec, const Array& array, const View& host, const WorkPoint* after = nullptr);

/// Errors: Error unless the array is defined and in memory that `exec` works with; wrapped memory may belong to others.
void check_memory(std::string_view what, const Exec& exec, const Array& array);

/// True if the host may read and write the array without waiting; also for wrapped memory.
bool on_host(const Array& array);

}  // namespace headroom
