#pragma once
// The common part of cuDNN's users: the GPU that it is opened for, and a plan's description. No header of cuDNN is
// included; internal/cudnn_graph.hpp has those.
//
//     const std::shared_ptr<const CudnnSession> cudnn = open_cudnn({.capability = 90, .stream = stream});
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

struct CudnnGpu {
    int capability = 0;  ///< 90 for 9.0
    void* stream = nullptr;
    /// The description of a GPU that is not present, in cuDNN's own form (JSON): plans can be made for it, but not run.
    /// Empty: the current GPU.
    std::string description = {};
    /// Waits for the stream's work; false, without waiting, while a CUDA graph is captured. Empty: there is no work.
    std::function<bool()> finish_work = {};
};

struct CudnnPlan {
    std::size_t scratch = 0;  ///< bytes that it takes
    std::string name;         ///< cuDNN's, of the kernel and its options
    std::string refusal;      ///< why there is none
};

/// Kept for the caller beside each plan.
struct CudnnChoice {
    bool known = false;     ///< an earlier run's choice was looked for
    bool tuned = false;     ///< the choice was found, or plans were tried
    bool captured = false;  ///< a CUDA graph launches the plan: it must stay
    std::string tried;      ///< the plan whose ReLU was tried
    bool exact = false;     ///< that ReLU keeps NaN and infinity
};

/// The files to try: the one that HEADROOM_CUDNN names, else libcudnn.so.<major version of the headers> on the loader's
/// path, then where the build found it.
std::vector<std::string> cudnn_libraries();
/// Likewise CUDA's shared runtime, of which cuDNN's frontend knows the name alone: the one that
/// CUDNN_FRONTEND_CUDART_LIB_NAME names, else libcudart.so.<major version>.
std::vector<std::string> cudart_libraries();

class CudnnSession;  // internal/cudnn_graph.hpp

/// cuDNN with a handle for the GPU. The library is opened once for the process: later calls find what the first one
/// opened. For a GPU that is present, the first of `runtimes` is opened, too. Errors: DeviceError if cuDNN is not
/// installed, is older than 9.15.1 or of another major version than the headers, or can't use the GPU, or if its
/// frontend finds no runtime.
std::shared_ptr<const CudnnSession> open_cudnn(const CudnnGpu& gpu,
                                               const std::vector<std::string>& libraries = cudnn_libraries(),
                                               const std::vector<std::string>& runtimes = cudart_libraries());

/// What own kernels computed in place of cuDNN on this stream, and why: it is not installed, too old, can't be used, or
/// has no attention for the GPU. One line; empty if cuDNN is in use, or if nothing has asked for it yet.
std::string cudnn_absence(CudaStream& stream);

}  // namespace headroom::kernels
