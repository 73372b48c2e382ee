#pragma once
// The driver of an NVIDIA GPU: CUDA's virtual memory, events and page-locked host memory. Its users need no CUDA
// headers, and programs start without the driver's library: libcuda is opened when the driver is made. Not for
// computing: `Context::cuda` makes the driver itself. Exists where CMake defines `HEADROOM_HAS_CUDA` as 1:
// where CUDA's headers were found when Headroom was built (docs/building.md).
//
//     std::unique_ptr<memory::Driver> driver = memory::make_cuda_driver({.device = 0, .streams = {compute, copies}});
//     DeviceMemory memory(std::move(driver));
//     memory::Allocation block = memory.allocate(4096, 1, {});    // for the stream `copies`
#if HEADROOM_HAS_CUDA

#include <memory>
#include <string>
#include <vector>

#include <headroom/memory/driver.hpp>

/// CUDA's types CUstream and cudaStream_t are pointers to this.
struct CUstream_st;

namespace headroom::memory {

struct CudaDriverOptions {
    int device = 0;  ///< CUDA's number: CUDA_VISIBLE_DEVICES chooses and orders devices
    /// By StreamId; at most 64 with streams that are adopted later. They must be streams of the device's primary
    /// context, which is the one that the CUDA runtime uses, and live as long as the driver. Null is the context's
    /// default stream.
    std::vector<CUstream_st*> streams = {nullptr};
    std::string library = "libcuda.so.1";  ///< of NVIDIA's driver; a name to search for, or a path
};

/// Keeps the device's primary context alive. Any thread may call the driver, whatever its current context is; that
/// context is current again afterwards. Page-locked memory serves every device of the process.
///
/// Pages are as large as CUDA recommends (2 MiB on the GPUs of today), blocks aligned to 512 bytes. `unmap` does not
/// wait for the device: wait before the call. If a call that may not throw fails, the next error names the failure.
/// Pages and pinned memory may be allocated while a stream is captured into a graph; no call becomes part of the graph.
/// Null, the default stream, counts as captured while a stream for which it would wait is captured.
///
/// Errors: DeviceError if there is no NVIDIA driver, no GPU, none of this number, or if the driver (older than
/// CUDA 10.2) or the device has no virtual memory management; each says what to do. Calls: DeviceError in a process
/// that was forked after the driver was made, which may not use CUDA; DeviceError with the device, CUDA's function, the
/// bytes, the code's name and its meaning. A StreamId beyond `streams` is a DeviceError, too.
std::unique_ptr<Driver> make_cuda_driver(CudaDriverOptions options = {});

}  // namespace headroom::memory

#endif
