#pragma once
// The destination of one gradient, for kernels that write several.
//
//     RmsNormGradientPlan(stream, x, dy, &gamma, rstd, {.x = &dx, .gamma = {&dgamma, 1}});   // dgamma is added to
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// The kernel writes the gradient plus beta times the current contents; with a beta of 0 it does not read them. The
/// view must stay alive until the kernel runs; null: the gradient is not wanted.
struct GradientTarget {
    GradientTarget(const View* view_ = nullptr, float beta_ = 0)  // NOLINT(google-explicit-constructor): beta is 0
        : view(view_), beta(beta_) {}
    explicit operator bool() const { return view != nullptr; }

    const View* view;
    float beta;
};

}  // namespace headroom::kernels
