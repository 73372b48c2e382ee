#pragma once
// The matmul of our own: any strides, any floating dtype, small blocks converted on the way in. It serves what
// oneDNN does not (f64, f16, odd strides) and products too small for a library call.
//
//     std::size_t bytes = blocked_scratch(stream.threads, problem);
//     blocked_matmul(stream, problem, scratch);
#include <cstddef>

#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Bytes for all threads; 0 for what fits the stack.
std::size_t blocked_scratch(int threads, const Problem& problem);

/// Bits do not depend on the number of threads: each element is summed in the order of k, in blocks fixed by the shape.
void blocked_matmul(CpuStream& stream, const Problem& problem, std::byte* scratch);

}  // namespace headroom::kernels
