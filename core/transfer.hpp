#pragma once
// Copies between the host's memory and arrays on any device. In a training step, only `download` waits for a GPU. Not
// for ops, which never see the host, nor for the batches of a training (data/feed.hpp).
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

/// A point in a context's work: it stands for all work that was queued before. Copies are the same point, and move
/// together. It is empty in a dry run and on a CPU, where work is done when its call returns.
class WorkPoint {
  public:
    WorkPoint() = default;
    explicit WorkPoint(const Exec& exec) { mark(exec); }
    /// Moves it to the present end of the work. The context is the same one in all calls. Errors: DeviceError.
    void mark(const Exec& exec);
    const kernels::CudaEvent* event() const { return event_.get(); }

  private:
    std::shared_ptr<kernels::CudaEvent> event_;
};

/// array = host, converted as `kernels::copy` does. `host` is row-major and may be overwritten when this has returned.
/// On a GPU another dtype needs memory for a copy there. Errors: OutOfMemory, DeviceError; Error if the array is
/// another context's. A dry run copies nothing.
void upload(const Exec& exec, const View& host, const Array& array);

/// host = array, likewise; `host` is row-major. With `after`, this waits only for work queued before that point: no
/// later work may write to the array. (If a GPU must convert it, this waits for all work.) Errors: as `upload`, and
/// ShapeError if an op met an index out of range since the last download: on a GPU it is reported here.
void download(const Exec& exec, const Array& array, const View& host, const WorkPoint* after = nullptr);

/// Errors: Error unless the array is defined and in memory that `exec` works with; wrapped memory may belong to others.
void check_memory(std::string_view what, const Exec& exec, const Array& array);

/// True if the host may read and write the array without waiting; also for wrapped memory.
bool on_host(const Array& array);

}  // namespace headroom
