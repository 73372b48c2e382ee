#pragma once
// Pools boxes of images into a fixed number of bins each (see region.hpp). The gradient of a pixel is a sum over the
// boxes that contain it, in order, so that its bits are always the same.
//
//     roi_align(stream, x, boxes, {.scale = 0.25, .sampling = 2}, y);       // x [2, 256, 200, 304], y [512, 256, 7, 7]
//     RoiAlignGradientPlan(stream, dy, boxes, options, 1.0f, dx);           // dx += gradient
//
// A plan is one call: allocate `plan.scratch()` bytes, then `plan.run(stream, scratch)`. CPU: a row of dx per thread.
// GPU: none.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/roi_align/internal/region.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y[r, c, i, j] = the mean of bin (i, j) of box r. x [N, C, H, W], y [R, C, rows, columns], floating, any strides;
/// fast if channels are adjacent in memory. boxes [R, 5], any dtype but bool: image index and x1, y1, x2, y2. Boxes
/// with a negative index, with NaN, or beyond 2^24 pixels give 0. Computed in f64 if x or y is, else in f32. Errors:
/// ShapeError for an index of N or more, on a GPU when the host next waits.
void roi_align(CpuStream& stream, const View& x, const View& boxes, const RoiAlignOptions& options, const View& y);
void roi_align(CudaStream& stream, const View& x, const View& boxes, const RoiAlignOptions& options, const View& y);

/// dx = beta dx + the gradient of x. Computed in f64 if dx or dy is, else in f32.
class RoiAlignGradientPlan {
  public:
    RoiAlignGradientPlan(const Stream& stream, const View& dy, const View& boxes, const RoiAlignOptions& options,
                         float beta, const View& dx);
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    bool wide() const { return dy_.dtype == Dtype::f64 || dx_.dtype == Dtype::f64; }
    std::size_t row_bytes() const;
    template <class T>
    void run_as(CpuStream& stream, std::byte* scratch) const;

    View dy_, boxes_, dx_;
    RegionMap map_;
    float beta_;
    std::int64_t workers_ = 0;  ///< on the CPU
    std::size_t scratch_ = 0;
};

}  // namespace headroom::kernels
