#pragma once
// Destinations for a kernel that writes the gradients of several inputs in one launch. If two inputs are views of one
// value, their destinations may share memory: then all gradients are added and none overwrites. Ops that launch once
// per input only need `GradSink::destination`.
//
//     JointTargets targets(exec, sink);
//     const JointTarget& dgamma = targets.ask(1);
//     const JointTarget& dx = targets.ask(0, dy);   // last, since it may take over dy's storage
//     exec.run<kernels::LayerNormGradientPlan>(..., kernels::LayerNormGradients{.x = dx, .gamma = dgamma});
#include <cstddef>

#include <headroom/core/exec.hpp>
#include <headroom/core/grad_sink.hpp>
#include <headroom/core/inline_list.hpp>
#include <headroom/kernels/gradient_target.hpp>

namespace headroom {

/// The destination of one input's gradient.
struct JointTarget {
    View view;
    float beta = 0.0f;
    bool wanted = false;

    explicit operator bool() const { return wanted; }
    operator kernels::GradientTarget() const { return {wanted ? &view : nullptr, beta}; }
};

/// Ask for each input once. References stay valid, but `beta` may change until the last call of `ask`.
class JointTargets {
  public:
    JointTargets(Exec& exec, GradSink& sink)
        : exec_(exec), sink_(sink), targets_(static_cast<std::size_t>(sink.inputs())) {}

    const JointTarget& ask(int input) { return add(input, sink_.destination(input)); }
    /// As `GradSink::destination(input, spent)`; must be the last call. Take `spent.view()` before it.
    const JointTarget& ask(int input, Array& spent) { return add(input, sink_.destination(input, spent)); }

  private:
    const JointTarget& add(int input, const GradientDestination& target);

    Exec& exec_;
    GradSink& sink_;
    InlineList<JointTarget, 5> targets_;  ///< by input
};

}  // namespace headroom
