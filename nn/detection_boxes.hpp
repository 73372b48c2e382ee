#pragma once
// Box utilities for detectors: anchors, encoded box differences, matching of boxes to objects, and sampling of boxes
// for training. Everything runs on the tensors' device without gradients, and no shape depends on values. Definitions
// are torchvision's. For region pooling and non-maximum suppression see core's roi_align and nms.
//
//     Tensor all = nn::anchors(cells, {200, 304}, {800, 1216});               // [200 * 304 * 3, 4]
//     Tensor overlaps = nn::box_iou(objects, all);                            // [10, 4], [A, 4] -> [10, A]
//     nn::Matches matches = nn::match(overlaps, present, {.positive = 0.7, .negative = 0.3, .each_object = true});
//     nn::BoxSample sample = nn::sample_balanced(kinds, 256, 0.5);  // [2, A] -> [2, 256]
//
// Boxes are x1, y1, x2, y2 in pixels, in the last axis.
#include <array>
#include <cstdint>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom::nn {

/// The value of a logit that must not count: with target 0 its loss and gradient are 0, also in f16 and bf16.
inline constexpr double kCertain = -1e4;

/// Boxes [ratios, 4] centred at 0 with these ratios of height to width. Each has the area of a square of side `size`,
/// rounded to whole pixels.
std::vector<double> anchor_cells(double size, const std::vector<double>& ratios);

/// The boxes of `cells` [A, 4] around each pixel of a pyramid level: [height * width * A, 4], row by row. The stride
/// between pixels is the image's size divided by the level's, rounded down.
Tensor anchors(const Tensor& cells, IntPair level, IntPair image);

/// Encodes a box as four network outputs relative to another box: the shift of the centre in units of the other box's
/// size, and the logarithms of the ratios of sizes, times `weights`. Girshick et al. 2014, arXiv:1311.2524, appendix C.
struct BoxCoder {
    std::array<double, 4> weights{1, 1, 1, 1};
    /// The codes [..., 4] of `boxes` relative to `from`, both [..., 4]. The codes are not finite where `from` has no
    /// area.
    Tensor encode(const Tensor& boxes, const Tensor& from) const;
    /// The inverse of `encode`. Sizes grow by at most a factor of 1000 / 16. `codes` and `from` broadcast.
    Tensor decode(const Tensor& codes, const Tensor& from) const;
};

/// Clips boxes [..., 4] to an image of this height and width.
Tensor clip_boxes(const Tensor& boxes, IntPair image);
/// bool [...]: whether both sides of each box [..., 4] are at least `side`.
Tensor sides_are_least(const Tensor& boxes, double side);
/// Intersection over union of each box of a [M, 4] with each box of b [K, 4]: [M, K]. NaN for two boxes without area.
Tensor box_iou(const Tensor& a, const Tensor& b);

struct MatchOptions {
    double positive = 0.5;     ///< a box matches an object if their overlap is at least this
    double negative = 0.5;     ///< a box is background if all its overlaps are below this
    bool each_object = false;  ///< an object's best box matches it, however small the overlap
};

/// The object that each of K boxes matches.
struct Matches {
    Tensor objects;  ///< i64 [K]: index of the object that the box overlaps most
    Tensor kinds;    ///< i64 [K]: 1 object, 0 background, -1 undecided
};

/// Matches K boxes to objects by the overlaps [M, K] of M object slots with the boxes; `present` [M] marks the slots
/// that hold an object. Without objects, all boxes are background.
Matches match(const Tensor& overlaps, const Tensor& present, const MatchOptions& options);

/// Sampled boxes of each image; boxes that match objects come first.
struct BoxSample {
    Tensor indices;            ///< i64 [N, S]
    Tensor labels;             ///< i64 [N, S]: labels of these boxes, -1 for unused slots
    std::int64_t objects = 0;  ///< the largest number of slots that may match objects
};

/// Samples at most `count` boxes of each image by their labels, i64 [N, K]: a label above 0 is an object, 0 is
/// background, and boxes below 0 are never sampled. At most count * fraction boxes, rounded down, match objects. If
/// there are more candidates of a kind than slots, all are equally likely. S is the smaller of `count` and K. Uses one
/// random counter of the context.
BoxSample sample_balanced(const Tensor& labels, std::int64_t count, double fraction);

/// Gathers rows of x [N, K, ...] by indices i64 [N, S]: [N, S, ...]. Differentiable.
Tensor take_rows(const Tensor& x, const Tensor& indices);

}  // namespace headroom::nn
