#pragma once
// Compares the gradients that backward computes of a function with finite differences, as torch.autograd.gradcheck. For
// a function of tensors; an op of your own is tested whole by `test::check_op` (core/test/op_checks.hpp), which calls
// this for each of its samples.
//
//     Tensor x = context.from_host(std::vector<double>{0.3, -1.2, 2.0}, {3}).requires_grad_();
//     gradcheck([](const std::vector<Tensor>& in) { return my_function(in[0]); }, {x});
#include <cstdint>
#include <functional>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// Differentiates the sum of all elements of the floating outputs, each times a random number that `seed` fixes, by
/// each element of the f64 inputs that require a gradient. The gradients of `inputs` themselves do not change. The
/// function must be smooth within 1/512 of the inputs, and give the same values when it is called again. The bound is
/// the error that extrapolation and rounding may leave. Errors: Error, in one line, for the first element whose
/// gradient is off; DtypeError for an input of another floating dtype, in which differences are lost; Error in a dry
/// context, or if no input requires a gradient.
void gradcheck(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function,
               const std::vector<Tensor>& inputs, std::uint64_t seed = 1);
void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
               std::uint64_t seed = 1);

}  // namespace headroom
