#pragma once
// Streams: the order in which a device does its work. A kernel is one overload per stream type, so a kernel that a
// device lacks is a compile error. A `DryStream` computes nothing: it stands for another device in a rehearsal whose
// memory traffic is the real one. A stream belongs to one thread; contexts own theirs.
//
//     CpuStream stream{.threads = 2, .state = &state};
//     kernels::softmax(stream, x, y);
//
//     Stream any = DryStream{.threads = 2, .state = &state};
//     launch(any, [&](auto& s) { kernels::softmax(s, x, y); });   // nothing happens
//
// A build without CUDA has no CudaStream among a Stream's kinds, but can rehearse one.
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <headroom/config.hpp>

namespace headroom::kernels {

class CudaDevice;  // device/cuda_device.hpp

/// What kernels keep per stream, such as a library's compiled primitives: one object per type, made when first asked
/// for. Lives as long as its context.
class StreamState {
  public:
    /// The state of type T; default-constructed by the first call. Linear in the number of types, which is a handful.
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

/// Work on the host, done when the call returns, by `threads` OpenMP threads.
struct CpuStream {
    int threads = 1;
    StreamState* state = nullptr;
};

/// A rehearsal of a CpuStream with as many threads, or of a CudaStream: scratch sizes are asked for and memory is
/// counted, nothing is computed.
struct DryStream {
    int threads = 1;
    StreamState* state = nullptr;
    bool cuda = false;
};

/// Work on a GPU in the order in which it was given. Calls return before it is done; pointers are the device's.
struct CudaStream {
    int threads = 1;  ///< of the host, which does nothing here
    StreamState* state = nullptr;
    CudaDevice* device = nullptr;
    std::uint32_t path = 0;  ///< the module path that work belongs to, for errors found later
};

#if HEADROOM_CUDA_KERNELS
using Stream = std::variant<CpuStream, DryStream, CudaStream>;
#else
using Stream = std::variant<CpuStream, DryStream>;
#endif

inline StreamState* state_of(const Stream& stream) {
    return std::visit([](const auto& s) { return s.state; }, stream);
}

inline int threads_of(const Stream& stream) {
    return std::visit([](const auto& s) { return s.threads; }, stream);
}

inline bool is_dry(const Stream& stream) { return std::holds_alternative<DryStream>(stream); }

/// True for a GPU's stream and for the rehearsal of one: scratch is what CUDA kernels need.
inline bool on_cuda(const Stream& stream) {
    const auto* dry = std::get_if<DryStream>(&stream);
    return dry != nullptr ? dry->cuda : !std::holds_alternative<CpuStream>(stream);
}

/// Calls `work` with the stream behind the variant, except on a dry stream, where nothing is to be done. Scratch is
/// allocated before, never inside.
template <class Work>
inline void launch(Stream& stream, Work&& work) {
    if (auto* cpu = std::get_if<CpuStream>(&stream)) return work(*cpu);
#if HEADROOM_CUDA_KERNELS
    if (auto* cuda = std::get_if<CudaStream>(&stream)) work(*cuda);
#endif
}

}  // namespace headroom::kernels
