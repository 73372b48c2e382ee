#pragma once
// Boxes of images, each averaged into the same number of bins: the features of a detector's regions (He et al. 2017,
// Mask R-CNN, arXiv:1703.06870). For whole images see adaptive_avg_pool2d in pool.hpp.
//
//     Tensor y = roi_align(features, boxes, {7, 7}, {.scale = 0.25, .sampling = 2});   // [2, 256, 200, 304], [512, 5]
//
// A list of boxes may have a fixed length: rows whose image index is below 0 stand for no box.
#include <cstdint>

#include <headroom/core/apply.hpp>
#include <headroom/kernels/roi_align/internal/region.hpp>

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

/// [R, C, size[0], size[1]], as torchvision.ops.roi_align computes it: each bin of a box is the mean of its samples,
/// each between four pixels. features [N, C, H, W] of any floating dtype, which the result has; boxes [R, 5] of any
/// dtype but bool: the image's index and x1, y1, x2, y2; computed in f32 (f64 for f64). The gradient goes to the
/// features alone, and its bits are the same in each run. Boxes whose index is below 0, with NaN or beyond 2^24 pixels
/// give 0 and get no gradient. Errors: ShapeError, also for an image index of N or more; DtypeError; Error for options
/// out of range and for boxes that require a gradient.
Tensor roi_align(Tensor features, Tensor boxes, IntPair size, const RoiAlignOptions& options = {});

}  // namespace headroom
