#pragma once
// One step of AdamW over a flat range of parameters: Adam (Kingma and Ba 2014, arXiv:1412.6980) with decoupled weight
// decay (Loshchilov and Hutter 2019, arXiv:1711.05101), as in PyTorch. One pass over memory: reads p, g, m, v, writes
// p, m, v. For ranges with different hyper-parameters, call it once per range.
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
// If the multiplier in memory is 0 or NaN, the step is skipped: nothing is written, and gradients may hold anything.
// This allows the device to decide about a step without the host: a kernel before this one sets the multiplier to 0 if
// the gradient's norm is not finite, and a kernel after it adds 1 to `steps` unless the multiplier is 0.
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct AdamWStep {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
};

/// All ranges are contiguous and have the same size, all f32 or all f64. Three numbers are f64 in memory, so that a
/// graph of kernels can be relaunched with other values: `learning_rate`; `multiplier`, which combines 1 / terms, 1 /
/// loss scale and clipping, and skips the step if 0 or NaN; and `steps`, the number of steps taken before this one, so
/// that t = *steps + 1. They are only read, so several ranges can be part of one step.
void adamw(CpuStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment);
void adamw(CudaStream& stream, const AdamWStep& step, const View& learning_rate, const View& multiplier,
           const View& steps, const View& gradient, const View& parameter, const View& first_moment,
           const View& second_moment);

}  // namespace headroom::kernels
