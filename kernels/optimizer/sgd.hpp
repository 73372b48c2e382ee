#pragma once
// One step of stochastic gradient descent with momentum over a flat range of parameters, as in PyTorch without
// dampening (Sutskever et al. 2013). One pass over memory. For ranges with different hyper-parameters, call it once per
// range.
//
//     SgdStep step{.momentum = 0.9, .nesterov = true};
//     sgd(stream, step, learning_rate, multiplier, gradient, parameter, &velocity);
//
// With the gradient g multiplied by `multiplier`:
//     g <- g + weight_decay * p
//     v <- momentum * v + g                       (the first step starts from v = 0)
//     p <- p - lr * (nesterov ? g + momentum * v : v)
//
// If the multiplier in memory is 0 or NaN, the step is skipped: nothing is written, and gradients may hold anything.
// This allows the device to decide about a step without the host.
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct SgdStep {
    double momentum = 0;
    double weight_decay = 0;
    bool nesterov = false;
};

/// All ranges are contiguous and have the same size, all f32 or all f64. `learning_rate` and `multiplier` are one f64
/// in memory each; a multiplier of 0 or NaN skips the step. `velocity` may be null if momentum is 0.
void sgd(CpuStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity);
void sgd(CudaStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity);

}  // namespace headroom::kernels
