#pragma once
// Reductions of a strided view over any set of its axes: sum (and so mean), largest, smallest, variance, and their
// gradients. The output's shape defines the axes: it has size 1 where the input is reduced, and may lack leading axes,
// as in broadcasting. Not for sums of a whole arena (see norm/) nor along one axis with indices (`argmax` below).
//
//     sum(stream, x, 1.0 / 128, y, 0, scratch);         // x [768, 128], y [768, 1]: means of rows
//     sum_to(stream, dy, dbias, 1, scratch);            // dy [768, 512], dbias [512]: column sums, added
//     amax(stream, x, y, scratch);                      // y [768, 1]
//     argmax(stream, x, 1, indices);                    // indices [768, 1], i64
//
// Inputs have any floating dtype and strides (sums take integers and bool too); f64 and integers are computed in f64,
// the rest in f32. Outputs have any dtype and strides other than 0. Sums are formed in blocks whose borders depend on
// the shape and strides alone, and the blocks are added up in f64: the same bits for any number of threads, and an
// error of at most 70 * epsilon * sum(|x|) whatever the length, usually far less. A sum of nothing is 0.
//
// On a GPU large reductions are shared out among blocks, which leave f64 numbers in `scratch` (of 8-byte alignment).
// Its size is that of `reduce_scratch` or a function's own `..._scratch`, for views of the same shapes, strides and
// dtypes.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Bytes of scratch that `sum`, `sum_to`, `amax` and `amin` need; none on the CPU. The views may be without data.
std::size_t reduce_scratch(const Stream& stream, const View& x, const View& y);

/// y = beta * y + scale * (sum of x over the axes where y has size 1). With scale = 1 / n: the mean.
void sum(CpuStream& stream, const View& x, double scale, const View& y, float beta, std::byte* scratch = nullptr);
void sum(CudaStream& stream, const View& x, double scale, const View& y, float beta, std::byte* scratch);

/// The gradient of a broadcast: y = beta * y + x summed to the shape of y, which broadcasts to that of x.
void sum_to(CpuStream& stream, const View& x, const View& y, float beta, std::byte* scratch = nullptr);
void sum_to(CudaStream& stream, const View& x, const View& y, float beta, std::byte* scratch);

/// The gradient of a sum: dx = beta * dx + scale * dy, dy stretched to the shape of dx.
void sum_backward(CpuStream& stream, const View& dy, double scale, const View& dx, float beta);
void sum_backward(CudaStream& stream, const View& dy, double scale, const View& dx, float beta);

/// y = the largest (smallest) element of x over the axes where y has size 1; NaN if there is one. Reduced axes must
/// not be empty: the op checks.
void amax(CpuStream& stream, const View& x, const View& y, std::byte* scratch = nullptr);
void amin(CpuStream& stream, const View& x, const View& y, std::byte* scratch = nullptr);
void amax(CudaStream& stream, const View& x, const View& y, std::byte* scratch);
void amin(CudaStream& stream, const View& x, const View& y, std::byte* scratch);

/// Bytes of scratch that `extremum_backward` needs.
std::size_t extremum_backward_scratch(const Stream& stream, const View& x, const View& y);
/// The gradient of both: dx = beta * dx + dy / ties where x equals y, elsewhere + 0. Ties share evenly, as PyTorch's
/// amax does. NaN counts as equal to NaN.
void extremum_backward(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx, float beta,
                       std::byte* scratch);
void extremum_backward(CudaStream& stream, const View& x, const View& y, const View& dy, const View& dx, float beta,
                       std::byte* scratch);

/// Bytes of scratch that `moments` needs; none on the CPU.
std::size_t moments_scratch(const Stream& stream, const View& x, const View& mean, const View& variance);
/// mean = mean of x; variance = sum((x - mean)^2) / (n - correction) over the axes where they have size 1: two passes,
/// so that a large mean costs no digits. Both have the same shape. Both need the dtype in which x is computed (f32;
/// f64 for f64): the second pass reads `mean`. Correction 1 is Bessel's; n <= correction gives infinity or NaN, as
/// division does.
void moments(CpuStream& stream, const View& x, double correction, const View& mean, const View& variance,
             std::byte* scratch = nullptr);
void moments(CudaStream& stream, const View& x, double correction, const View& mean, const View& variance,
             std::byte* scratch);

/// The gradient of the variance: dx = beta * dx + dvariance * 2 / (n - correction) * (x - mean).
void variance_backward(CpuStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);
void variance_backward(CudaStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);

/// y (i64, size 1 along `axis`) = position of the largest (smallest) element of x along `axis`: the first one among
/// equals; the first NaN if there is one, as in PyTorch. The axis must not be empty: the op checks.
void argmax(CpuStream& stream, const View& x, int axis, const View& y);
void argmin(CpuStream& stream, const View& x, int axis, const View& y);
void argmax(CudaStream& stream, const View& x, int axis, const View& y);
void argmin(CudaStream& stream, const View& x, int axis, const View& y);

}  // namespace headroom::kernels
