#pragma once
// Boxes of detectors: anchors, the differences between boxes that a network predicts, which object a box shows, and
// which boxes to learn from. Everything is computed on the tensors' device, without gradients, and no shape depends on
// values. Definitions are torchvision's. For pooling regions and for suppressing boxes that overlap see core's
// roi_align and nms.
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

/// Stands in place of a logit that is not to count: with target 0 its loss and gradient are 0, for halves, too.
inline constexpr double kCertain = -1e4;

/// Boxes [ratios, 4] around 0 with these ratios of height to width. Each has the area of a square of this size, rounded
/// to whole pixels.
std::vector<double> anchor_cells(double size, const std::vector<double>& ratios);

/// The boxes of `cells` [A, 4] around each pixel of a level of a pyramid, [height * width * A, 4], row by row. The
/// distance of two pixels is the image's size divided by the level's, rounded down.
Tensor anchors(const Tensor& cells, IntPair level, IntPair image);

/// A box as four numbers of a network, relative to another box: the shift of the centre in units of the other's size,
/// and the logarithms of the ratios of sizes, times these weights. Girshick et al. 2014, arXiv:1311.2524, appendix C.
struct BoxCoder {
    std::array<double, 4> weights{1, 1, 1, 1};
    /// The numbers [..., 4] by which `boxes` differ from `from`, both [..., 4]. Not finite where `from` has no area.
    Tensor encode(const Tensor& boxes, const Tensor& from) const;
    /// The boxes. Sizes grow at most by 1000 / 16. `codes` and `from` broadcast.
    Tensor decode(const Tensor& codes, const Tensor& from) const;
};

/// Boxes [..., 4] cut off at the edges of an image of height and width.
Tensor clip_boxes(const Tensor& boxes, IntPair image);
/// Truth values [...]: whether both sides of a box [..., 4] have at least this length.
Tensor sides_are_least(const Tensor& boxes, double side);
/// The area of the intersection over the area of the union, for each of a [M, 4] and each of b [K, 4]: [M, K]. NaN for
/// two boxes without area.
Tensor box_iou(const Tensor& a, const Tensor& b);

struct MatchOptions {
    double positive = 0.5;     ///< a box shows an object if their overlap is at least this
    double negative = 0.5;     ///< a box shows none if its overlaps are all below this
    bool each_object = false;  ///< the box that overlaps an object most shows it, however little
};

/// Which object each of K boxes shows.
struct Matches {
    Tensor objects;  ///< i64 [K]: the position of the object that the box overlaps most
    Tensor kinds;    ///< i64 [K]: 1 shows an object, 0 shows none, -1 undecided
};

/// Matches by the overlaps [M, K] of M places for objects with K boxes; `present` [M] says which places hold an object.
/// Without objects, no box shows any.
Matches match(const Tensor& overlaps, const Tensor& present, const MatchOptions& options);

/// A choice of boxes of each image; boxes that show objects come first.
struct BoxSample {
    Tensor indices;            ///< i64 [N, S]
    Tensor labels;             ///< i64 [N, S]: the labels of these boxes, -1 for places that are left over
    std::int64_t objects = 0;  ///< the most places that may show objects
};

/// Chooses at most `count` boxes of each image by their labels, i64 [N, K]: above 0 a box shows an object, at 0 it
/// shows none, and below 0 it is not chosen. At most count * fraction boxes, rounded down, show objects. Where a kind
/// has more boxes than places, each of them is equally likely. S is the smaller of `count` and K. Takes a random
/// counter of the context.
BoxSample sample_balanced(const Tensor& labels, std::int64_t count, double fraction);

/// Rows of x [N, K, ...] by indices i64 [N, S]: [N, S, ...]. Differentiable.
Tensor take_rows(const Tensor& x, const Tensor& indices);

}  // namespace headroom::nn
