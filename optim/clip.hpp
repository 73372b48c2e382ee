#pragma once
// Gradient clipping by the global norm (Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063). Gradients are read once and
// never rewritten: the factor goes into the multiplier of the optimizer's step. `GradientAccumulator` does all of this
// without waiting for the device; use these functions only if you drive an optimizer yourself.
//
//     const double norm = optim::gradient_norm(parameters) * multiplier;
//     optimizer.step(1e-3, multiplier * optim::clip_factor(norm, 1.0));
#include <headroom/core/parameters.hpp>

namespace headroom::optim {

/// result = sum of the squares of all trained parameters' gradients; each must exist (see Parameters::fill_unreached).
/// One f64 element. With sharded gradients the sum is over all ranks, and all must call it. The result is finite if and
/// only if every gradient is (f32 gradients; f64 ones up to 1e150). Errors: Error if a gradient is missing.
void sum_of_squared_gradients(Parameters& parameters, const Array& result);

/// The square root of that sum. Waits for the device. 0 in a dry context.
double gradient_norm(Parameters& parameters);

/// min(1, max_norm / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_; 1 if `max_norm` is 0.
double clip_factor(double norm, double max_norm);

}  // namespace headroom::optim
