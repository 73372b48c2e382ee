#pragma once
// Between the host's memory and arrays, wherever these lie. `download` is where a program waits for a GPU; nothing else
// in a training step does. Not for ops, which never see the host, nor for the batches of a training (data/feed.hpp).
//
//     upload(exec, contiguous_view(values.data(), Dtype::f32, shape), array);
//     const WorkPoint uploaded(exec);                                                     // waits for nothing
//     download(exec, array, contiguous_view(values.data(), Dtype::f64, array.shape()));   // waits for all, converts
//     download(exec, array, contiguous_view(values.data(), Dtype::f32, shape), &uploaded);
#include <memory>

#include <headroom/core/array.hpp>
#include <headroom/core/exec.hpp>

namespace headroom::kernels {
class CudaEvent;  // kernels/device/cuda_device.hpp
}

namespace headroom {

/// A point in a context's work: what was queued before. Copies of it are the same point, and move together. On a CPU,
/// where work is done when its call returns, and in a rehearsal it is nothing.
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
/// On a GPU another dtype takes room for a copy there. Errors: OutOfMemory, DeviceError. A dry run copies nothing.
void upload(const Exec& exec, const View& host, const Array& array);

/// host = array, likewise; `host` is row-major. With `after`, this waits for what was queued before that point alone:
/// nothing later may write to the array. (If it must be converted on a GPU, it waits for all.) Errors: as `upload`, and
/// ShapeError if an op met an index out of range since the last download: on a GPU that is found here.
void download(const Exec& exec, const Array& array, const View& host, const WorkPoint* after = nullptr);

/// True if the host may read and write the array, at once. Memory of unknown origin counts as such.
bool on_host(const Array& array);

}  // namespace headroom
