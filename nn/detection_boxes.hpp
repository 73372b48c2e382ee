#pragma once
// What detectors compute with boxes: anchors, the differences between boxes that a network predicts, which object a box
// shows, and which boxes to learn from. All of it is computed where the tensors are, without gradients, and no shape
// depends on values. Definitions are torchvision's. For pooling regions and for suppressing boxes that overlap see
// core's roi_align and nms.
//
//     Tensor all = anchors(cells, {200, 304}, {800, 1216});                   // [200 * 304 * 3, 4]
//     Tensor overlaps = box_iou(objects, all);                                // [10, 4], [A, 4] -> [10, A]
//     Matches matches = match(overlaps, present, {.positive = 0.7, .negative = 0.3, .each_object = true});
//     BoxSample sample = sample_balanced(kinds, 256, 0.5);  // [2, A] -> [2, 256]
//
// Boxes are x1, y1, x2, y2 in pixels, in the last axis.
#include <array>
#include <cstdint>
#include <vector>

#include <headroom/core/tensor.hpp>

namespace headroom::nn {

/// The logit in place of one that is no term of a loss: with target 0 its loss and gradient are 0, for halves, too.
inline constexpr double kCertain = -1e4;

/// Boxes [ratios, 4] around 0 with these ratios of height to width and the area of a square of this size, rounded to
/// whole pixels.
std::vector<double> anchor_cells(double size, const std::vector<double>& ratios);

/// The boxes of `cells` [A, 4] around each pixel of a level of a pyramid, [height * width * A, 4], row by row. The
/// distance of two pixels is the image's size divided by the level's, rounded down.
Tensor anchors(const Tensor& cells, IntPair level, IntPair image);

/// How a network's four numbers stand for a box: the shift of another box's centre in units of its size, and the
/// logarithm of the ratio of sizes, times these weights. Girshick et al. 2014, arXiv:1311.2524, appendix C.
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
/// The area of the intersection of each of a [M, 4] and each of b [K, 4] by that of the union: [M, K]. NaN for two
/// boxes without area.
Tensor box_iou(const Tensor& a, const Tensor& b);

struct MatchOptions {
    double positive = 0.5;     ///< an overlap that is not below: the box shows the object
    double negative = 0.5;     ///< below it with all objects: the box shows none
    bool each_object = false;  ///< boxes that no other box overlaps an object more than show it, however little
};

/// Which object each of K boxes shows.
struct Matches {
    Tensor objects;  ///< i64 [K], positions of the objects that they overlap most
    Tensor kinds;    ///< i64 [K]: 1 shows an object, 0 shows none, -1 undecided
};

/// Of overlaps [M, K] of M places for objects, of which those are there that `present` [M] says, with K boxes. Without
/// objects all boxes show none.
Matches match(const Tensor& overlaps, const Tensor& present, const MatchOptions& options);

/// A choice of boxes of each image, those of objects first.
struct BoxSample {
    Tensor indices;            ///< i64 [N, S]
    Tensor labels;             ///< of the boxes: i64 [N, S], -1 for places that are left over
    std::int64_t objects = 0;  ///< at most so many places show objects
};

/// At most `count` boxes of each image, by labels i64 [N, K]: above 0 objects, 0 none, below not to be chosen. At most
/// count * fraction, rounded down, show objects; if there are more, and of the others, each is as likely. S is the
/// smaller of `count` and K. Takes a random counter of the context.
BoxSample sample_balanced(const Tensor& labels, std::int64_t count, double fraction);

/// Rows of x [N, K, ...] by indices i64 [N, S]: [N, S, ...]. Differentiable.
Tensor take_rows(const Tensor& x, const Tensor& indices);

}  // namespace headroom::nn
