#pragma once
// The project's own matmul kernels for GPUs, for products that cuBLASLt does not take. Correct for any strides; not
// meant to be as fast as cuBLASLt.
//
//     tiled_matmul(stream, reduce(matmul));
#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Uses tiles of 64 x 64 in shared memory, 16 or (halves, on tensor cores) 32 deep. Each element is one block's sum
/// over all of k: the same bits on every device for f32 and f64.
void tiled_matmul(CudaStream& stream, const Problem& problem);

}  // namespace headroom::kernels
