#pragma once
// Large products of f32 and f64 from packed panels of both operands, for processors on which oneDNN uses its kernels
// from before AVX-512: these pack or not depending on the size of a thread's share, and are up to a third slower
// without packing. The order of loops is that of Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008).
//
//     if (takes_panels(problem)) panels_matmul(stream, problem, scratch);   // panels_scratch(stream.threads, problem) bytes
#include <cstddef>

#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// No batches, c contiguous along n and of the operands' dtype, and large enough for packing to pay off.
bool takes_panels(const Problem& problem);

std::size_t panels_scratch(int threads, const Problem& problem);

/// For problems that `takes_panels` accepts, on any processor. At most 192 products are summed before they are added to
/// c. The bits do not depend on the number of threads.
void panels_matmul(CpuStream& stream, const Problem& problem, std::byte* scratch);

}  // namespace headroom::kernels
