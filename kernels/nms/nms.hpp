#pragma once
// Non-maximum suppression: among overlapping boxes, only the one with the highest score is kept. The result has a fixed
// length, so that shapes do not depend on values.
//
//     ArgsortPlan(stream, scores, 1, true, order);                        // scores [2, 1000]
//     nms(stream, {boxes, scores, order, groups, 0.7, 0.05}, y);          // y i64 [2, 100]
//
// Overlaps (intersection over union) have the bits of f32 arithmetic without contraction on every device, which are
// those of torchvision on a CPU.
#include <cmath>
#include <cstdint>

#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct Nms {
    View boxes;   ///< [N, K, 4]: x1, y1, x2, y2
    View scores;  ///< [N, K]
    View order;   ///< i64 [N, K]: positions by descending score
    View groups;  ///< i32 or i64 [N, K]; without data: one group
    double threshold = 0.5;
    double min_score = 0;
};

/// y[n] = the positions of the boxes of image n that are kept, in `order`, padded with -1. A box is dropped if its
/// score is NaN, -infinity or below `min_score`, or if it overlaps a kept box of its group by more than `threshold`. y
/// i64 [N, most]; boxes and scores of any dtype but bool, rounded to f32; any strides.
void nms(CpuStream& stream, const Nms& call, const View& y);
void nms(CudaStream& stream, const Nms& call, const View& y);

struct NmsBox {
    float x1, y1, x2, y2;
    std::int64_t group;

    /// Each result is computed in f64 and rounded. This equals f32 arithmetic, because f64 has twice the bits, even if
    /// the compiler contracts operations.
    HEADROOM_DEVICE bool overlaps(const NmsBox& other, double threshold) const {
        if (group != other.group) return false;
        const float left = x1 > other.x1 ? x1 : other.x1, right = x2 < other.x2 ? x2 : other.x2;
        const float top = y1 > other.y1 ? y1 : other.y1, bottom = y2 < other.y2 ? y2 : other.y2;
        const float both = left < right && top < bottom ? area(left, top, right, bottom) : 0.0f;
        const auto sum =
            static_cast<float>(double{area(x1, y1, x2, y2)} + area(other.x1, other.y1, other.x2, other.y2));
        const auto either = static_cast<float>(double{sum} - both);
        return static_cast<float>(double{both} / either) > threshold;
    }

  private:
    HEADROOM_DEVICE static float area(float left, float top, float right, float bottom) {
        const auto width = static_cast<float>(double{right} - left), height = static_cast<float>(double{bottom} - top);
        return static_cast<float>(double{width} * height);
    }
};

/// Whether a box with this score takes part; false for NaN.
HEADROOM_DEVICE bool takes_part(float score, double min_score) { return score >= min_score && score > -INFINITY; }

}  // namespace headroom::kernels
