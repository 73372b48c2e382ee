#pragma once
// cuDNN's convolutions through its C++ frontend, which only this header's source file includes. cuDNN itself is opened
// at run time.
//
//     CudnnConvolutions cudnn(open_cudnn({.capability = 90, .stream = stream}));
//     if (cudnn.plan(convolution).refusal.empty()) cudnn.run(convolution, data, scratch);
#include <memory>
#include <string>

#include <headroom/kernels/convolution/internal/cudnn_convolution.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>

namespace headroom::kernels {

class CudnnConvolutions {
  public:
    explicit CudnnConvolutions(std::shared_ptr<const CudnnSession> session);
    ~CudnnConvolutions();
    CudnnConvolutions(const CudnnConvolutions&) = delete;
    CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

    /// "cuDNN 9.26.0, frontend 1.32.0".
    std::string version() const;
    /// The plan for `convolution`: made on first use, in about a second, and kept.
    const CudnnPlan& plan(const CudnnConvolution& convolution);
    CudnnChoice& choice(const CudnnConvolution& convolution);
    /// See CudnnGraph.
    void choose(const CudnnConvolution& convolution, const std::string& name);
    /// As that of CudnnGraph; tries nothing if the convolution adds to its result.
    std::string choose_fastest(const CudnnConvolution& convolution, const CudnnConvolutionData& data,
                               std::byte* scratch, const WorkTimer& timer, const std::function<bool()>& in_time);
    /// Runs the plan. `scratch`: as much as the plan takes, aligned to 16 bytes. Errors: DeviceError.
    void run(const CudnnConvolution& convolution, const CudnnConvolutionData& data, std::byte* scratch);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace headroom::kernels
