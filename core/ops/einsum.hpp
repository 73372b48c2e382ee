#pragma once
// Sums of products, specified by axis letters. The operands are arranged for one matmul, or for one broadcast product
// if nothing is summed; the cost is that of these ops, plus a copy if the strides require it.
//
//     Tensor c = einsum("bij,bjk->bik", {a, b});         // a batched matmul
//     Tensor scores = einsum("bthd,bshd->bhts", {q, k});
//     Tensor columns = einsum("ij->j", {x});                // sums of columns
#include <string_view>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// One or two operands with one letter per axis. Letters missing from the result are summed over. Without "->", the
/// result has the letters that occur once, in alphabetical order (capitals first). Dtypes and errors as in matmul.hpp;
/// Error also for a letter repeated within one operand (a diagonal), for "...", and for any other malformed equation.
Tensor einsum(std::string_view equation, std::vector<Tensor> operands);

}  // namespace headroom
