#pragma once
// Images whose rows and columns are weighted sums of another image's: averages over windows, interpolation, padding.
// Each gradient is the same kernel with its maps read backwards: an input adds up the outputs that read it, in order,
// so that the bits are always the same. For sums over whole large images see reduce/.
//
//     AxisMap rows = AxisMap::linear(14, 28, false), columns = rows;
//     resample(stream, x, rows, columns, 0, y);       // x [8, 64, 14, 14], y [8, 64, 28, 28]
//     rows.back = columns.back = true;
//     resample(stream, dy, rows, columns, 1, dx);     // dx += gradient
#include <headroom/kernels/resample/axis_map.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y[n, c, i, j] = beta y[n, c, i, j] + the sum over r and s of weight (i, r) of `rows` times weight (j, s) of
/// `columns` times x[n, c, r, s]. x and y [N, C, H, W] with any strides and floating dtypes; fast if channels are
/// adjacent in memory. Computed in f64 if either is f64, else in f32, row by row. Elements of weight 0 are not read.
void resample(CpuStream& stream, const View& x, const AxisMap& rows, const AxisMap& columns, float beta, const View& y);
void resample(CudaStream& stream, const View& x, const AxisMap& rows, const AxisMap& columns, float beta,
              const View& y);

}  // namespace headroom::kernels
