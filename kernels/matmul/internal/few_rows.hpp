#pragma once
// A few rows times a matrix with contiguous columns, such as one token times a Linear's weights: each element is a dot
// product of two runs of memory, and nothing is copied.
//
//     if (takes_few_rows(problem)) few_rows_matmul(stream, problem, matmul);   // needs no scratch
#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// At most four rows of f32 or f64, no batches, both operands contiguous along k and long enough.
bool takes_few_rows(const Problem& problem);

/// The bits do not depend on the number of threads.
void few_rows_matmul(CpuStream& stream, const Problem& problem);

}  // namespace headroom::kernels
