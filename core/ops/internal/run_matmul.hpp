#pragma once
// Runs matrix products for ops: allocates scratch, broadcasts batches, sums gradients of broadcast operands. Users call
// `matmul` and `linear`.
//
//     run_matmul(exec, {.a = x.view(), .b = kernels::transposed(weight.view()), .c = y.view()});
//     run_matmul_to(exec, kernels::transposed(dy.view()), x.view(), dweight.view(), dweight.beta);
//     affine_gradients(exec, dy.view(), x.view(), targets.ask(1), targets.ask(2));   // of weight and bias
#include <headroom/core/exec.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom {

/// Runs `kernels::matmul` and allocates its scratch.
void run_matmul(Exec& exec, const kernels::Matmul& matmul);

/// c = beta * c + the sum of a x b over the batch axes that c lacks or has with size 1: the gradient of a broadcast
/// operand. Axes that are evenly spaced in memory are summed within one product, others one position at a time. If
/// `sums`, [m], is given: sums = sums_beta * sums + the sum of a's rows over those axes and k; a must then have all of
/// these axes.
void run_matmul_to(Exec& exec, const View& a, const View& b, const View& c, float beta, const View& sums = {},
                   float sums_beta = 0.0f);

/// The gradients of x weight^T + bias with respect to weight and bias, where wanted, in one product if possible. dy
/// [..., out] and x [..., in], of rank 2 or more.
void affine_gradients(Exec& exec, const View& dy, const View& x, const JointTarget& dweight, const JointTarget& dbias);

/// Views a vector as a matrix with one row; other views are unchanged.
View as_matrix(View x);

/// Positions [first, first + count) of the first axis.
View rows_of(View x, std::int64_t first, std::int64_t count);

}  // namespace headroom
