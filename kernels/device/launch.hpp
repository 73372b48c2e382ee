#pragma once
// Launches kernels. With nvcc: a `__global__` template around the functor, on a CUDA stream. Otherwise: the emulator in
// place of the stream. Only .cu sources include this.
//
//     void scale(CudaStream& stream, float* x, float factor, std::int64_t n) {
//         device::launch(stream, {.x = grid_for(stream, n, 256), .loops = true, .threads = 256}, Scale{}, x, factor, n);
//     }
//
// The functor and its arguments are copied to the device: plain values and pointers. A functor with an upper limit of
// threads per block declares `static constexpr unsigned kMaxThreads` and gets more registers. One that needs a newer
// GPU declares `static constexpr int kCapability` and is not compiled for older ones.
#include <algorithm>
#include <stdexcept>
#include <string>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/memory/error.hpp>
#if defined(__CUDACC__)
#include <headroom/kernels/device/cuda_error.hpp>
#include <headroom/kernels/device/cuda_kernels.hpp>
#else
#include <typeinfo>
#endif

namespace headroom::kernels::device {

template <class Kernel>
constexpr unsigned max_threads() {
    if constexpr (requires { Kernel::kMaxThreads; }) return Kernel::kMaxThreads;
    return 1024;
}

/// The compute capability that the kernel needs.
template <class Kernel>
inline constexpr int kCapabilityFor = kLeastCapability;
template <class Kernel>
requires requires { Kernel::kCapability; }
inline constexpr int kCapabilityFor<Kernel> = Kernel::kCapability;

#if defined(__CUDACC__)

using Stream = cudaStream_t;

template <class Kernel, class... Args>
__global__ void __launch_bounds__(max_threads<Kernel>())
    entry(Args... args, const Kernel kernel) {  // an empty functor takes no space
#if defined(__CUDA_ARCH__)
    if constexpr (__CUDA_ARCH__ < 10 * kCapabilityFor<Kernel>) {
        __trap();  // `launch` has refused it
    } else
#endif
    {
        Block block;
        kernel(block, args...);
    }
}

/// The device is null for a stream without a context, as in tests.
template <class Kernel, class... Args>
void enqueue(Stream stream, CudaDevice* device, CudaKernels& kernels, LaunchShape shape, const Kernel& kernel,
             Args... args) {
    const auto function = entry<Kernel, Args...>;
    const int multiprocessors = device != nullptr ? device->properties().multiprocessors : 1;
    check_cuda(device, "launch", kernels.prepare(reinterpret_cast<const void*>(function), multiprocessors, shape));
    // Clears an earlier error, maybe of another device, so that the next check reports only this launch.
    cudaGetLastError();
    function<<<dim3(shape.x, shape.y, shape.z), shape.threads, shape.shared_bytes, stream>>>(args..., kernel);
    check_cuda(device, "launch", cudaGetLastError());
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

/// False for an empty grid.
template <class Kernel>
bool runs(const LaunchShape& shape) {
    if (shape.x == 0 || shape.y == 0 || shape.z == 0) return false;
    if (const char* problem = problem_with(shape)) throw ShapeError(std::string("launch: ") + problem);
    if (shape.threads > max_threads<Kernel>()) {
        throw ShapeError("launch: " + std::to_string(shape.threads) +
                         " threads per block, but the kernel takes at most " + std::to_string(max_threads<Kernel>()));
    }
    return true;
}

/// Starts `kernel(block, args...)` for every thread of the shape, in stream order; an empty grid starts nothing.
/// Errors: ShapeError if a GPU could not run the shape or it has more threads than the kernel's kMaxThreads;
/// DeviceError if CUDA refuses the launch. The emulator runs the kernel before it returns, unless a test delays it
/// (emulated_queues.hpp), and throws if the kernel breaks a rule.
template <class Kernel, class... Args>
void launch(Stream stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    if (!runs<Kernel>(shape)) return;
#if defined(__CUDACC__)
    CudaKernels kernels;
    enqueue(stream, nullptr, kernels, shape, kernel, args...);
#else
    enqueue(stream, shape, kernel, args...);
#endif
}

/// The same on a context's stream. Errors: also ShapeError for more shared memory than this device has, DeviceError if
/// the kernel needs a newer GPU, OutOfMemory if there is no room for the kernel's code. After a DeviceError for a
/// kernel that breaks a rule (emulated) or for a fault reported by CUDA (possibly of an earlier kernel, unless
/// CUDA_LAUNCH_BLOCKING=1), the device refuses all later work.
template <class Kernel, class... Args>
void launch(CudaStream& stream, const LaunchShape& shape, const Kernel& kernel, Args... args) {
    CudaDevice& device = *stream.device;
    device.make_current();
    if (const int least = kCapabilityFor<Kernel>; device.properties().capability() < least) {
        throw DeviceError("launch: the kernel needs compute capability " + capability_text(least) + ", but " +
                          device.properties().name + " has " + capability_text(device.properties().capability()));
    }
    if (shape.shared_bytes > device.properties().shared_bytes) {
        throw ShapeError("launch: " + std::to_string(shape.shared_bytes) + " bytes of shared memory per block, but " +
                         device.properties().name + " has " + std::to_string(device.properties().shared_bytes));
    }
    if (!runs<Kernel>(shape)) return;
    device.count_launch();
#if defined(__CUDACC__)
    enqueue(static_cast<cudaStream_t>(device.native()), &device, stream.state->get<CudaKernels>(), shape, kernel,
            args...);
#else
    enqueue(*static_cast<EmulatedDevice*>(device.native()), shape, kernel, args...);
#endif
}

/// Number of blocks for a grid-stride loop over `count` elements: enough for `per_block` elements each, but no more
/// than any GPU can run at once; for a launch that `loops`, no more than this one can run of the kernel. Not for sums:
/// their order must not depend on the device.
inline std::uint32_t grid_for(const CudaStream& stream, std::int64_t count, std::int64_t per_block) {
    const CudaProperties& gpu = stream.device->properties();
    const std::int64_t most = std::int64_t{gpu.blocks} * gpu.multiprocessors;
    return static_cast<std::uint32_t>(std::min((count + per_block - 1) / per_block, most));
}

}  // namespace headroom::kernels::device
