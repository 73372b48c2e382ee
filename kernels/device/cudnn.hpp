#pragma once
// The common part of cuDNN's users: the GPU it is opened for, and the description of a plan. Includes no cuDNN header;
// those are in internal/cudnn_graph.hpp.
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
    /// The description of an absent GPU in cuDNN's own form (JSON): plans can be made for it, but not run. Empty: the
    /// current GPU.
    std::string description = {};
    /// Waits for the stream's work; returns false, without waiting, while a CUDA graph is captured. Empty: there is no
    /// work.
    std::function<bool()> finish_work = {};
};

struct CudnnPlan {
    std::size_t scratch = 0;  ///< bytes of scratch
    std::string name;         ///< cuDNN's name of the kernel and its options
    std::string refusal;      ///< why there is no plan
};

/// Kept for the caller with each plan.
struct CudnnChoice {
    bool known = false;     ///< an earlier run's choice was looked up
    bool tuned = false;     ///< a choice was found, or plans were tried
    bool captured = false;  ///< a CUDA graph launches the plan, so it must stay
    std::string tried;      ///< the plan whose ReLU was tested
    bool exact = false;     ///< its ReLU keeps NaN and infinity
};

/// The files to try: the one named by HEADROOM_CUDNN, else libcudnn.so.<major version of the headers> on the loader's
/// path, then where the build found it.
std::vector<std::string> cudnn_libraries();
/// The same for CUDA's shared runtime, which cuDNN's frontend loads by name only: the one named by
/// CUDNN_FRONTEND_CUDART_LIB_NAME, else libcudart.so.<major version>.
std::vector<std::string> cudart_libraries();

class CudnnSession;  // internal/cudnn_graph.hpp

/// Returns cuDNN with a handle for the GPU. The library is opened once per process; later calls use the first one's.
/// For a present GPU, the first of `runtimes` that loads is opened, too. Errors: DeviceError if cuDNN is not installed,
/// is older than 9.15.1 or has a different major version than the headers, can't use the GPU, or if its frontend finds
/// no runtime.
std::shared_ptr<const CudnnSession> open_cudnn(const CudnnGpu& gpu,
                                               const std::vector<std::string>& libraries = cudnn_libraries(),
                                               const std::vector<std::string>& runtimes = cudart_libraries());

/// The work that the project's own kernels did instead of cuDNN on this stream, and why: cuDNN is not installed, too
/// old, unusable, or has no attention for the GPU. One line; empty if cuDNN is in use or was not needed yet.
std::string cudnn_absence(CudaStream& stream);

}  // namespace headroom::kernels
