#pragma once
// Rows of a table by index, and the gradient of the table. Not for indices along other axes: see gather/.
//
//     embedding(stream, table, ids, y);                             // table [V, D], ids [12, 64], y [12, 64, D]
//     embedding_backward(stream, ids, dy, dtable, 1, scratch);      // dtable [V, D] += rows of dy
//
// Indices are i32 or i64 with any strides; one outside of [0, V) throws ShapeError with its value and position, before
// anything is written; on a GPU the host throws when it next waits.
#include <cstddef>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y[..., :] = table[ids[...], :]. The table has any dtype; y may have another.
void embedding(CpuStream& stream, const View& table, const View& ids, const View& y);
void embedding(CudaStream& stream, const View& table, const View& ids, const View& y);

/// Bytes of scratch that `embedding_backward` needs: the positions, sorted by index; on a GPU also the sums of rows
/// that have many of them.
std::size_t embedding_backward_scratch(Stream& stream, const View& ids, const View& dtable);

/// dtable[v, :] = beta * dtable[v, :] + sum of dy[p, :] over the positions p with ids[p] = v, in the order of the
/// positions, on a GPU in parts that follow from the shapes and the ids; summed in f32 (f64 for f64) and rounded once.
/// Positions and V must be less than 2^31.
void embedding_backward(CpuStream& stream, const View& ids, const View& dy, const View& dtable, float beta,
                        std::byte* scratch);
void embedding_backward(CudaStream& stream, const View& ids, const View& dy, const View& dtable, float beta,
                        std::byte* scratch);

}  // namespace headroom::kernels
