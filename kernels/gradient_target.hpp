#pragma once
// Where a kernel of several gradients writes one of them.
//
//     RmsNormGradientPlan(stream, x, dy, &gamma, rstd, {.x = &dx, .gamma = {&dgamma, 1}});   // dgamma is added to
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The gradient plus beta times what is there is written; with a beta of 0 that is not read. The view must be there
/// until the kernel runs; null: the gradient is not wanted.
struct GradientTarget {
    GradientTarget(const View* view_ = nullptr, float beta_ = 0)  // NOLINT(google-explicit-constructor): beta is 0
        : view(view_), beta(beta_) {}
    explicit operator bool() const { return view != nullptr; }

    const View* view;
    float beta;
};

}  // namespace headroom::kernels
