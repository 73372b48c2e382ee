#pragma once
// Sums of products by the letters of their axes. It arranges its operands for one matmul, or for one product with
// broadcasting where nothing is summed; so it costs what they do, and a copy where strides demand it.
//
//     Tensor c = einsum("bij,bjk->bik", {a, b});         // a batched matmul
//     Tensor scores = einsum("bthd,bshd->bhts", {q, k});
//     Tensor columns = einsum("ij->j", {x});                // sums of columns
#include <string_view>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom {

/// One or two operands, a letter for each of their axes. Letters that the result does not have are summed over. Without
/// "->", the result has the letters that occur once, in the alphabet's order (capitals first). Dtypes and errors as in
/// matmul.hpp; Error also for a letter that stands twice in one operand (a diagonal), for "...", and for any other
/// equation that is not one.
Tensor einsum(std::string_view equation, std::vector<Tensor> operands);

}  // namespace headroom
