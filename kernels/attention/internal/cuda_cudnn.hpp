#pragma once
// cuDNN's fused attention through its C++ frontend, which only this header's source file includes. cuDNN itself is
// opened at run time.
//
//     Cudnn cudnn(open_cudnn({.capability = 90, .stream = stream}));
//     if (cudnn.plan(sdpa).refusal.empty()) cudnn.run(sdpa, data, scratch);
#include <cstddef>
#include <memory>
#include <string>

#include <headroom/kernels/attention/internal/sdpa.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/device/internal/cuda_timing.hpp>

namespace headroom::kernels {

class Cudnn {
  public:
    using Plan = CudnnPlan;
    using Choice = CudnnChoice;

    explicit Cudnn(std::shared_ptr<const CudnnSession> session);
    ~Cudnn();
    Cudnn(const Cudnn&) = delete;
    Cudnn& operator=(const Cudnn&) = delete;

    /// "cuDNN 9.26.0, frontend 1.32.0".
    std::string version() const;
    /// The plan for `sdpa`: made on first use, in about a second, and kept.
    const Plan& plan(const Sdpa& sdpa);
    Choice& choice(const Sdpa& sdpa);
    /// Switches `sdpa` to the plan of that name. Keeps the present plan if cuDNN makes none of that name, or only one
    /// that takes more scratch than `Sdpa::scratch`.
    void choose(const Sdpa& sdpa, const std::string& name);
    /// Times the plans that cuDNN proposes, switches `sdpa` to the fastest, and returns its name. Each plan is executed
    /// like `run`; plans that take more scratch than `Sdpa::scratch`, the size of `scratch`, are skipped. If no trial
    /// succeeds, keeps the present plan and returns an empty name. Errors: those of `timer`; the plan is kept.
    std::string choose_fastest(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch, const WorkTimer& timer,
                               const std::function<bool()>& in_time);
    /// Runs the plan. `scratch`: as much as the plan takes, aligned to 16 bytes. Errors: DeviceError.
    void run(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace headroom::kernels
