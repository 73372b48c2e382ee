#pragma once
// Compares the gradients from backward with finite differences, like torch.autograd.gradcheck. It checks functions of
// tensors. To test your own op in full, use `test::check_op` (core/test/op_checks.hpp), which calls this for each of
// its samples.
//
//     Tensor x = context.from_host(std::vector<double>{0.3, -1.2, 2.0}, {3}).requires_grad_();
//     gradcheck([](const std::vector<Tensor>& in) { return my_function(in[0]); }, {x});
#include <cstdint>
#include <functional>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// The function under test is the sum of all elements of the floating outputs, each times a random number fixed by
/// `seed`, differentiated by each element of the f64 inputs that require a gradient. The gradients of `inputs`
/// themselves stay unchanged. The function must be smooth within 1/512 of the inputs and return the same values on
/// every call. The tolerance is the error that extrapolation and rounding can leave. Errors: Error, in one line, for
/// the first element whose gradient is off; DtypeError for an input of another floating dtype, whose precision hides
/// the differences; Error in a dry context, or if no input requires a gradient.
void gradcheck(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function,
               const std::vector<Tensor>& inputs, std::uint64_t seed = 1);
void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
               std::uint64_t seed = 1);

}  // namespace headroom
