#pragma once
// Copies and sums on CUDA where source and target are contiguous along different axes: tiles in shared memory let both
// be accessed in whole lines. `copy` and `accumulate` try these first.
//
//     if (copy_transposed(stream, x, y)) return;      // else y is untouched: do it another way
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = x, of one dtype. Returns false, and does nothing, if this is not a transposition or too narrow to gain from
/// tiles.
bool copy_transposed(CudaStream& stream, const View& x, const View& y);

/// y = alpha x + beta y, computed in f32. Returns false likewise, and unless x is f32, f16 or bf16.
bool combine_transposed(CudaStream& stream, const View& x, const View& y, float alpha, float beta);

}  // namespace headroom::kernels
