#pragma once
// The driver of an NVIDIA GPU: CUDA virtual memory, events and page-locked host memory. Users need no CUDA headers, and
// programs start without NVIDIA's driver: libcuda is opened when the driver object is created. For computing,
// `Context::cuda` creates the driver itself. Available where CMake defines `HEADROOM_HAS_CUDA` as 1, which it does if
// it found CUDA's headers (docs/building.md).
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
    int device = 0;  ///< CUDA's device number; CUDA_VISIBLE_DEVICES selects and orders devices
    /// Indexed by StreamId; at most 64 including streams adopted later. All must belong to the device's primary context
    /// (the one the CUDA runtime uses) and outlive the driver. Null is that context's default stream.
    std::vector<CUstream_st*> streams = {nullptr};
    std::string library = "libcuda.so.1";  ///< NVIDIA's driver library; a name to search for, or a path
};

/// Keeps the device's primary context alive. Any thread may call the driver with any current context; the call restores
/// that context. Page-locked memory serves every device of the process.
///
/// Pages have the size that CUDA recommends (2 MiB on today's GPUs), blocks are aligned to 512 bytes. `unmap` does not
/// wait for the device: wait before the call. If a noexcept call fails, the next error names the failure. Pages and
/// pinned memory may be allocated while a stream is captured into a graph; no call becomes part of the graph. The
/// default stream (null) counts as captured while a stream that it would wait for is captured.
///
/// Errors: DeviceError if there is no NVIDIA driver, no GPU, no GPU of this number, or if the driver (older than CUDA
/// 10.2) or the device lacks virtual memory management; each message says what to do. Calls: DeviceError in a process
/// that was forked after the driver was created, where CUDA may not be used; DeviceError with the device, the CUDA
/// function, the bytes, and the name and meaning of the error code; DeviceError for a StreamId beyond `streams`.
std::unique_ptr<Driver> make_cuda_driver(CudaDriverOptions options = {});

}  // namespace headroom::memory

#endif
