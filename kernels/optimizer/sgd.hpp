#pragma once
// One step of stochastic gradient descent with momentum over a flat range of parameters, in PyTorch's form without
// dampening (Sutskever et al. 2013). One pass over memory. Not for ranges with different hyper-parameters: call it
// once for each.
//
//     SgdStep step{.momentum = 0.9, .nesterov = true};
//     sgd(stream, step, learning_rate, multiplier, gradient, parameter, &velocity);
//
// With the gradient g multiplied by `multiplier`:
//     g <- g + weight_decay * p
//     v <- momentum * v + g                       (the first step starts from v = 0)
//     p <- p - lr * (nesterov ? g + momentum * v : v)
//
// A step is skipped where the multiplier in memory is 0 or NaN: nothing is written, and gradients may be anything. So
// whether a step takes place can be decided on the device, without the host.
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct SgdStep {
    double momentum = 0;
    double weight_decay = 0;
    bool nesterov = false;
};

/// All ranges are contiguous and of one size, all f32 or all f64. `learning_rate` and
/// `multiplier` are one f64 in memory each; a multiplier of 0 or NaN skips the step. `velocity` may be null if momentum
/// is 0.
void sgd(CpuStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity);
void sgd(CudaStream& stream, const SgdStep& step, const View& learning_rate, const View& multiplier,
         const View& gradient, const View& parameter, const View* velocity);

}  // namespace headroom::kernels
