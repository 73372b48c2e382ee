#pragma once
// Non-maximum suppression: among overlapping boxes, only the one with the highest score is kept. The result has a fixed
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
    std::int64_t most = 0;  ///< boxes kept per image; 0: no limit
    /// i32 or i64 [N, K]: boxes suppress only boxes of the same group, as in torchvision's batched_nms. Undefined: all
    /// boxes of an image are one group.
    Tensor groups = {};
    double min_score = -std::numeric_limits<double>::infinity();  ///< boxes with a lower score are ignored
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

/// i64 [N, most]: the positions in [0, K) of the kept boxes, by descending score (equal scores in order of position),
/// padded with -1. boxes [N, K, 4] as x1, y1, x2, y2; scores [N, K], where -infinity and NaN mean no box. A box is
/// dropped if its overlap with a kept one exceeds `threshold`: intersection over union, in f32, with torchvision's bits
/// on each device. Any dtypes but bool; no gradient. Errors: ShapeError; DtypeError; Error for a threshold outside [0,
/// 1] or a negative `most`.
Tensor nms(Tensor boxes, Tensor scores, double threshold, const NmsOptions& options = {});

}  // namespace headroom
