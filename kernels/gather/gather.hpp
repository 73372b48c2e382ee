#pragma once
// Elements or slices by index along one axis, and the gradients. Not for rows of a table (see embedding/), whose
// gradient is faster.
//
//     gather(stream, x, 1, index, y);                     // y[i][j][k] = x[i][index[i][j][k]][k]
//     scatter_add(stream, 1, index, dy, dx, 0);           // its gradient
//     index_select(stream, x, 0, index, y);               // y[i][j] = x[index[i]][j]
//     index_select_backward(stream, 0, index, dy, dx, 1);
//
// Indices are i32 or i64 with any strides; one outside of the axis throws ShapeError with its value and position,
// before anything is written. Semantics are PyTorch's, except that a negative index is an error here, too. Sums that
// land on one element are added in the order of the indices: the same bits for any number of threads; with a half
// destination every addition rounds.
#include <headroom/kernels/view.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom::kernels {

/// y = x with the position along `axis` replaced by index's element. `index` and y have the same shape; it may be
/// smaller than x along the other axes. Any dtype, the same for x and y.
void gather(CpuStream& stream, const View& x, int axis, const View& index, const View& y);

/// y = beta * y, then y[.., index[..], ..] += source[..]: a scatter with addition (beta 1), and the gradient of
/// `gather`. `index` has the shape of `source`, or is smaller (then only that part of source is read). Floating dtypes,
/// which may differ; y's strides reach each element once.
void scatter_add(CpuStream& stream, int axis, const View& index, const View& source, const View& y, float beta);

/// y = slices of x along `axis`, in the order of `index` (rank 1). Any dtype, the same for x and y.
void index_select(CpuStream& stream, const View& x, int axis, const View& index, const View& y);

/// dx = beta * dx, then dx[slice index[i]] += dy[slice i]. Floating dtypes, which may differ.
void index_select_backward(CpuStream& stream, int axis, const View& index, const View& dy, const View& dx, float beta);

}  // namespace headroom::kernels
