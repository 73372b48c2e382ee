#pragma once
// Pools boxes of images into a fixed number of bins: the region features of a detector (He et al. 2017, Mask R-CNN,
// arXiv:1703.06870). For whole images see adaptive_avg_pool2d in pool.hpp.
//
//     Tensor y = roi_align(features, boxes, {7, 7}, {.scale = 0.25, .sampling = 2});   // [2, 256, 200, 304], [512, 5]
//
// A list of boxes may have a fixed length: rows with a negative image index mean no box.
#include <cstdint>

#include <headroom/core/apply.hpp>
#include <headroom/kernels/roi_align/roi_align.hpp>

namespace headroom {

/// `scale`, `sampling` and `aligned` are torchvision's spatial_scale, sampling_ratio and aligned.
using RoiAlignOptions = kernels::RoiAlignOptions;

namespace ops {

struct RoiAlign {
    static constexpr OpInfo info{.name = "roi_align", .precision = Precision::full};
    struct Attrs {
        IntPair size;
        RoiAlignOptions options = {};
    };
    struct Saved {
        Array boxes;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& features, const Array& boxes);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// [R, C, size[0], size[1]], as computed by torchvision.ops.roi_align: each bin of a box is the mean of its samples,
/// each interpolated from four pixels. features [N, C, H, W] of any floating dtype, which is the result's; boxes [R, 5]
/// of any dtype but bool: image index and x1, y1, x2, y2. Computed in f32 (f64 for f64). Only the features get a
/// gradient, with the same bits in every run. Boxes with a negative index, with NaN or beyond 2^24 pixels give 0 and
/// get no gradient. Errors: ShapeError, also for an image index of N or more; DtypeError; Error for options out of
/// range and for boxes that require a gradient.
Tensor roi_align(Tensor features, Tensor boxes, IntPair size, const RoiAlignOptions& options = {});

}  // namespace headroom
