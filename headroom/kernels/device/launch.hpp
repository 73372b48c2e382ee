#pragma once
// All kernels start here. With nvcc: as a `__global__` template around the functor, on a CUDA stream. Elsewhere: in the
// emulator that stands in for the stream. Only sources named .cu include this.
//
//     void scale(CudaStream& stream, float* x, float factor, std::int64_t n) {
//         device::launch(stream, {.x = grid_for(stream, n, 256), .threads = 256}, Scale{}, x, factor, n);
//     }
//
// The functor and its arguments are copied to the device: plain values and pointers. A functor that never runs with
// more than some number of threads says so with `static constexpr unsigned kMaxThreads`, and gets more registers for
// it.
#include <algorithm>
#include <stdexcept>
#include <string>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#if !defined(__CUDACC__)
#include <typeinfo>
#endif

namespace headroom::kernels::device {

template <class Kernel>
constexpr unsigned max_threads() {
    if constexpr (requires { Kernel::kMaxThreads; }) return Kernel::kMaxThreads;
    return 1024;
}

#if defined(__CUDACC__)

using Stream = cudaStream_t;

template <class Kernel, class... Args>
__global__ void __launch_bounds__(max_threads<Kernel>())
    entry(Args... args, const Kernel kernel) {  // an empty functor takes no place
    Block block;
    kernel(block, args...);
}

template <class Kernel, class... Args>
void enqueue(Stream stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    const auto function = entry<Kernel, Args...>;
    const auto bytes = static_cast<int>(shape.shared_bytes);
    cudaError_t error = cudaSuccess;
    if (bytes > 48 * 1024)  // above that, a kernel needs this attribute
        error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess) {
        cudaGetLastError();  // of an earlier call, maybe on another device: the next one is to tell of this launch
                             // alone
        function<<<dim3(shape.x, shape.y, shape.z), shape.threads, shape.shared_bytes, stream>>>(args..., kernel);
        error = cudaGetLastError();
    }
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
        throw DeviceError(
            "cuda: this program has no code for this GPU; build it with -DHEADROOM_CUDA_ARCHITECTURES=..., or update "
            "the driver");
    }
    if (error != cudaSuccess) throw DeviceError(std::string("launch: ") + cudaGetErrorString(error));
}

#else

using Stream = EmulatedDevice&;

template <class Kernel, class... Args>
void enqueue(Stream stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    stream.run(shape, typeid(Kernel).name(), [=](EmulatedThread& thread) {  // copied, as for a GPU: it may run later
        Block block(thread);
        kernel(block, args...);
    });
}

#endif

/// Starts `kernel(block, args...)` for every thread of the shape, in stream order; an empty grid starts nothing.
/// ShapeError where a GPU could not run the shape or it has more threads than the kernel's kMaxThreads, DeviceError if
/// CUDA refuses the launch. The emulator runs the kernel before it returns, unless a test delays it
/// (emulated_queues.hpp), and throws an error if the kernel breaks a rule.
template <class Kernel, class... Args>
void launch(Stream stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    if (shape.x == 0 || shape.y == 0 || shape.z == 0) return;
    if (const char* problem = problem_with(shape)) throw ShapeError(std::string("launch: ") + problem);
    if (shape.threads > max_threads<Kernel>()) {
        throw ShapeError("launch: " + std::to_string(shape.threads) + " threads per block, where the kernel takes " +
                         std::to_string(max_threads<Kernel>()));
    }
    enqueue(stream, shape, kernel, args...);
}

/// The same on a context's stream. Errors: ShapeError also for more shared memory than this device has, DeviceError
/// also if the kernel breaks a rule (emulated) or CUDA reports a fault (also one of an earlier kernel, unless
/// CUDA_LAUNCH_BLOCKING=1): then the device refuses all later work.
template <class Kernel, class... Args>
void launch(CudaStream& stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    CudaDevice& device = *stream.device;
    device.make_current();
    if (shape.shared_bytes > device.properties().shared_bytes) {
        throw ShapeError("launch: " + std::to_string(shape.shared_bytes) + " bytes of shared memory per block, where " +
                         device.properties().name + " has " + std::to_string(device.properties().shared_bytes));
    }
#if defined(__CUDACC__)
    try {
        launch(static_cast<cudaStream_t>(device.native()), shape, kernel, args...);
    } catch (const DeviceError& error) {
        device.set_fault(error.what());
        throw;
    }
#else
    launch(*static_cast<EmulatedDevice*>(device.native()), shape, kernel, args...);
#endif
}

/// Blocks for a loop over `count` elements with the size of the grid as its step: enough for `per_block` elements each,
/// but no more than eight for each multiprocessor. Not for sums: their order may not depend on the device.
inline std::uint32_t grid_for(const CudaStream& stream, std::int64_t count, std::int64_t per_block) {
    const std::int64_t most = 8 * static_cast<std::int64_t>(stream.device->properties().multiprocessors);
    return static_cast<std::uint32_t>(std::min((count + per_block - 1) / per_block, most));
}

}  // namespace headroom::kernels::device
