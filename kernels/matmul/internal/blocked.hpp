#pragma once
// The project's own matmul: any strides, any floating dtype; small blocks are converted as they are loaded. It computes
// what oneDNN does not support (f64, f16, unusual strides) and products too small for a library call.
//
//     std::size_t bytes = blocked_scratch(stream.threads, problem);
//     blocked_matmul(stream, problem, scratch);
#include <cstddef>

#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Bytes for all threads; 0 if everything fits on the stack.
std::size_t blocked_scratch(int threads, const Problem& problem);

/// The bits do not depend on the number of threads: each element is summed in the order of k, in blocks fixed by the
/// shape.
void blocked_matmul(CpuStream& stream, const Problem& problem, std::byte* scratch);

}  // namespace headroom::kernels
