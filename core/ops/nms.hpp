#pragma once
// Non-maximum suppression: of boxes that overlap, the one with the highest score stays. The result is a list of fixed
// length, so that a dry run has the shapes of the real one.
//
//     Tensor kept = nms(boxes, scores, 0.5, {.most = 100, .groups = labels, .min_score = 0.05});   // [2, 1000, 4]
//     Tensor is_there = ge(kept, 0.0);                                                             // [2, 100]
//     Tensor best = gather(scores, 1, clamp(kept, 0, 999));
#include <cstdint>
#include <limits>

#include <headroom/core/apply.hpp>

namespace headroom {

struct NmsOptions {
    std::int64_t most = 0;  ///< the most boxes of an image that are kept; 0: all of them
    /// i32 or i64 [N, K]: only boxes of one group suppress each other, as in torchvision's batched_nms. Undefined: all
    /// boxes of an image are in one.
    Tensor groups = {};
    double min_score = -std::numeric_limits<double>::infinity();  ///< boxes with a score below it are absent
};

namespace ops {

struct Nms {
    static constexpr OpInfo info{.name = "nms", .precision = Precision::full};
    struct Attrs {
        double threshold, min_score;
        std::int64_t most;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& boxes, const Array& scores,
                                          const Array& groups);
    static std::vector<Sample<Attrs>> samples();
};

}  // namespace ops

/// i64 [N, most]: the positions in [0, K) of the boxes that are kept, by descending score (of equal ones the first
/// comes first), then -1. boxes [N, K, 4], x1, y1, x2, y2; scores [N, K], where -infinity and NaN stand for no box. A
/// box goes if it overlaps with one that is kept by more than `threshold`: by the intersection's area over the union's,
/// in f32, with torchvision's bits on each device. Any dtypes but bool; no gradient. Errors: ShapeError; DtypeError;
/// Error for a threshold outside of [0, 1] and a negative `most`.
Tensor nms(Tensor boxes, Tensor scores, double threshold, const NmsOptions& options = {});

}  // namespace headroom
