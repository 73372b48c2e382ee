#pragma once
// Elements or slices by index along one axis, and the gradients. For rows of a table see embedding/, whose gradient is
// faster.
//
//     gather(stream, x, 1, index, y);                     // y[i][j][k] = x[i][index[i][j][k]][k]
//     ScatterAddPlan(stream, 1, index, dy, dx, 0);        // its gradient
//     index_select(stream, x, 0, index, y);               // y[i][j] = x[index[i]][j]
//     IndexSelectGradientPlan(stream, 0, index, dy, dx, 1);
//
// A plan is one call: allocate `plan.scratch()` bytes, then `plan.run(stream, scratch)`.
//
// Indices are i32 or i64 with any strides, with PyTorch's semantics, but negative indices are errors. An index out of
// range throws ShapeError with its value and position, before anything is written; on a GPU the host throws when it
// next waits. Values for one element are added in the order of the indices (on a GPU in parts determined by shapes and
// indices), in f32 (f64 for an f64 destination), and rounded once: the bits are the same every time, for any number of
// threads.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/gather/internal/scatter_plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Only checks that indices are in [0, bound). `what`, a string literal, begins the error message.
void check_index(CpuStream& stream, const char* what, const View& index, std::int64_t bound);
void check_index(CudaStream& stream, const char* what, const View& index, std::int64_t bound);

/// y = x with the position along `axis` replaced by the index's element. `index` and y have the same shape, which may
/// be smaller than x along the other axes. Any dtype, the same for x and y.
void gather(CpuStream& stream, const View& x, int axis, const View& index, const View& y);
void gather(CudaStream& stream, const View& x, int axis, const View& index, const View& y);

/// y = beta * y, then y[.., index[..], ..] += source[..]: a scatter-add (beta 1), and the gradient of `gather`. `index`
/// has the shape of `source` or is smaller (then only that part of source is read). Floating dtypes, which may differ;
/// y's strides reach each element once. beta * y is rounded before sums are added. Errors on a GPU: ShapeError unless a
/// line of y along `axis` and one of the index have fewer than 2^31 elements.
class ScatterAddPlan {
  public:
    ScatterAddPlan(const Stream& stream, int axis, const View& index, const View& source, const View& y, float beta);

    /// Bytes. CPU: an f32 sum per element of a half-precision y, if several values may be added to one. GPU: sorted
    /// positions, for lines of more than 256 indices.
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    int axis_;
    View index_, source_, y_;
    float beta_;
    ScatterPlan plan_;  ///< used on a GPU
    std::size_t scratch_;
};

/// y = slices of x along `axis`, in the order of `index` (rank 1). Any dtype, the same for x and y.
void index_select(CpuStream& stream, const View& x, int axis, const View& index, const View& y);
void index_select(CudaStream& stream, const View& x, int axis, const View& index, const View& y);

/// dx = beta * dx, then dx[slice index[i]] += dy[slice i]. Floating dtypes, which may differ. beta * dx is rounded
/// before sums are added. Errors on a GPU: ShapeError unless index and axis have fewer than 2^31 elements.
class IndexSelectGradientPlan {
  public:
    IndexSelectGradientPlan(const Stream& stream, int axis, const View& index, const View& dy, const View& dx,
                            float beta);

    /// Bytes. CPU: as scatter_add. GPU: sorted positions, and sums of slices with many positions.
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    int axis_;
    View index_, dy_, dx_;
    float beta_;
    SelectPlan plan_;  ///< used on a GPU
    std::size_t scratch_;
};

}  // namespace headroom::kernels
