#pragma once
// A stream is a device's queue of work. A kernel has one overload per stream type, so using a kernel that a device
// lacks is a compile error. A `DryStream` computes nothing: it stands for a device in a dry run, which allocates
// exactly what the real run does. A stream belongs to one thread; each context owns its own.
//
//     CpuStream stream{.threads = 2, .state = &state};
//     kernels::softmax(stream, x, y);
//
//     Stream any = DryStream{.threads = 2, .state = &state};
//     launch(any, [&](auto& s) { kernels::softmax(s, x, y); });   // nothing happens
//
// A build without CUDA has no device for a CudaStream, but supports dry runs of a GPU; its library contains placeholder
// kernels, which are never called (`without_cuda.cpp`). Work that takes only a `CpuStream&` has no GPU kernel, and
// `launch` reports that.
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <headroom/kernels/compute_options.hpp>

namespace headroom::kernels {

class CudaDevice;  // device/cuda_device.hpp

/// Data that kernels keep per stream, such as a library's compiled primitives: one object per type, created on first
/// use. Lives as long as its context.
class StreamState {
  public:
    /// The state of type T, default-constructed on first use. Linear in the number of types, of which there are only a
    /// few.
    template <class T>
    T& get() {
        for (auto& [key, object] : objects_) {
            if (key == &tag<T>) return *static_cast<T*>(object.get());
        }
        objects_.emplace_back(&tag<T>, std::make_shared<T>());
        return *static_cast<T*>(objects_.back().second.get());
    }

  private:
    template <class T>
    static constexpr char tag = 0;
    std::vector<std::pair<const void*, std::shared_ptr<void>>> objects_;
};

/// Work on the host, on `threads` threads if there is a `state` to keep them; calls return when it is done.
struct CpuStream {
    int threads = 1;
    StreamState* state = nullptr;
    ComputeOptions compute{};
};

/// A dry run of a CpuStream with this number of threads, or of a CudaStream: counts memory, scratch included, and
/// computes nothing.
struct DryStream {
    int threads = 1;
    StreamState* state = nullptr;
    int capability = 0;  ///< compute capability of the GPU, 75 for 7.5; 0: a CpuStream
    ComputeOptions compute{};
};

/// Work on a GPU, in queue order. Calls return before it is done; pointers are device pointers.
struct CudaStream {
    int threads = 1;  ///< of the host, which does no work here
    StreamState* state = nullptr;
    CudaDevice* device = nullptr;
    ComputeOptions compute{};
    std::uint32_t path = 0;  ///< the module path of the work, for errors found later
};

using Stream = std::variant<CpuStream, DryStream, CudaStream>;

inline StreamState* state_of(const Stream& stream) {
    return std::visit([](const auto& s) { return s.state; }, stream);
}

inline int threads_of(const Stream& stream) {
    return std::visit([](const auto& s) { return s.threads; }, stream);
}

inline const ComputeOptions& compute_of(const Stream& stream) {
    return std::visit([](const auto& s) -> const ComputeOptions& { return s.compute; }, stream);
}

inline bool is_dry(const Stream& stream) { return std::holds_alternative<DryStream>(stream); }

/// True for a GPU's stream and for a dry run of one: scratch then has the sizes that CUDA kernels need.
inline bool on_cuda(const Stream& stream) {
    const auto* dry = std::get_if<DryStream>(&stream);
    return dry != nullptr ? dry->capability > 0 : !std::holds_alternative<CpuStream>(stream);
}

/// The compute capability of the GPU, 75 for 7.5, also in a dry run; 0 on the CPU.
int capability_of(const CudaStream& stream);
int capability_of(const Stream& stream);

/// Always throws Error: `work` has no kernel for a GPU.
[[noreturn]] void refuse_cuda(const char* work);

/// True if `work` takes a CudaStream, as `[](auto& stream) {}` does and `[](CpuStream& stream) {}` does not.
template <class Work>
inline constexpr bool kTakesCuda = std::is_invocable_v<Work, CudaStream&>;

/// Calls `work` with the stream that the variant holds; does nothing on a dry stream. Allocate scratch before the call,
/// never inside. Errors: Error on a GPU, also in a dry run of one, if `work` does not take a CudaStream.
template <class Work>
inline void launch(Stream& stream, Work&& work) {
    if (auto* cpu = std::get_if<CpuStream>(&stream)) return work(*cpu);
    if constexpr (kTakesCuda<Work>) {
        if (auto* cuda = std::get_if<CudaStream>(&stream)) work(*cuda);
    } else if (on_cuda(stream)) {
        refuse_cuda("launch");
    }
}

}  // namespace headroom::kernels
