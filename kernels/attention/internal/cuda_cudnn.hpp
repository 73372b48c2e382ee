#pragma once
// cuDNN's fused attention through its C++ frontend, which only the source of this header includes. cuDNN itself is
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
    /// Made when first asked for, which takes about a second; kept.
    const Plan& plan(const Sdpa& sdpa);
    Choice& choice(const Sdpa& sdpa);
    /// The plan of that name is its plan from now on; if cuDNN makes none of that name, or one that takes more scratch
    /// than `Sdpa::scratch`, the plan stays.
    void choose(const Sdpa& sdpa, const std::string& name);
    /// The fastest of the plans that cuDNN proposes is its plan from now on; returns its name. Each is executed, as by
    /// `run`, whose scratch is enough for them; what takes more is left out. The scratch is as large as
    /// `Sdpa::scratch`. Where no trial succeeds the plan stays, and the name is empty. Errors: what `timer` throws; the
    /// plan stays.
    std::string choose_fastest(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch, const WorkTimer& timer,
                               const std::function<bool()>& in_time);
    /// By its plan. `scratch`: as much as the plan takes, aligned to 16 bytes. Errors: DeviceError.
    void run(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace headroom::kernels
