#pragma once
// Matrix products as ops launch them: scratch allocated, batches broadcast, gradients of broadcast operands summed. Not
// for users, who call `matmul` and `linear`.
//
//     product(exec, {.a = x.view(), .b = kernels::transposed(weight.view()), .c = y.view()});
//     product_to(exec, kernels::transposed(dy.view()), x.view(), dweight.view(), dweight.beta);
#include <headroom/core/exec.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom {

/// Runs `kernels::matmul` with scratch of its own.
void product(Exec& exec, const kernels::Matmul& matmul);

/// c = beta * c + the sum of a x b over the batch axes that c lacks or has with size 1: the gradient of a broadcast
/// operand. Axes that go on evenly in memory are summed as part of one product, the others one position at a time.
void product_to(Exec& exec, const View& a, const View& b, const View& c, float beta);

/// A vector seen as a matrix of one row; other views as they are.
View as_matrix(View x);

}  // namespace headroom
