#pragma once
// Between the host's memory and arrays, wherever these lie. `download` is where a program waits for a GPU; nothing else
// in a training step does. Not for ops, which never see the host.
//
//     upload(exec, contiguous_view(values.data(), Dtype::f32, shape), array);
//     download(exec, array, contiguous_view(values.data(), Dtype::f64, array.shape()));     // waits, converts
#include <headroom/core/array.hpp>
#include <headroom/core/exec.hpp>

namespace headroom {

/// array = host, converted as `kernels::copy` does. `host` is row-major and may be overwritten when this has returned.
/// On a GPU another dtype takes room for a copy there. Errors: OutOfMemory, DeviceError. A dry run copies nothing.
void upload(const Exec& exec, const View& host, const Array& array);

/// host = array, likewise; `host` is row-major. Errors: as `upload`, and ShapeError if an op met an index out of range
/// since the last download: on a GPU that is found here.
void download(const Exec& exec, const Array& array, const View& host);

/// True if the host may read and write the array, at once. Memory of unknown origin counts as such.
bool on_host(const Array& array);

}  // namespace headroom
