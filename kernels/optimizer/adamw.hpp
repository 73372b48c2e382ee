#pragma once
// One step of AdamW over a flat range of parameters: Adam (Kingma and Ba 2014, arXiv:1412.6980) with decoupled weight
// decay (Loshchilov and Hutter 2019, arXiv:1711.05101), in PyTorch's form. One pass over memory: reads p, g, m, v,
// writes p, m, v. Not for ranges with different hyper-parameters: call it once for each.
//
//     AdamWStep step{.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
//     adamw(stream, step, learning_rate, multiplier, steps, gradient, parameter, first, second);
//
// With t the number of this step (1 for the first) and the gradient g multiplied by `multiplier`:
//     p <- p - lr * weight_decay * p
//     m <- beta1 * m + (1 - beta1) * g
//     v <- beta2 * v + (1 - beta2) * g^2
//     p <- p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// A step is skipped where the multiplier in memory is 0 or NaN: nothing is written, and gradients may be anything. So
// whether a step takes place can be decided on the device, without the host: a kernel before this one sets the
// multiplier to 0 if the gradient's norm is not finite, a kernel after it adds 1 to `steps` if it is not 0.
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct AdamWStep {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
};

/// All ranges are contiguous and of one size, all f32 or all f64. Three numbers are f64 in memory, so that a graph of
/// kernels can be launched again with others: `learning_rate`; `multiplier`, which is 1 / terms, 1 / loss scale and
/// clipping in one, 0 or NaN to skip the step; and `steps`, how many were taken before this one, so that t = *steps
/// + 1. They are read alone: several ranges make one step.
void adamw(CpuStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment);
void adamw(CudaStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment);

}  // namespace headroom::kernels
