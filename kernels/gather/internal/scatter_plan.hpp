#pragma once
// How a GPU adds along lines (see scatter_add): the part that depends only on shapes. For short lines, a thread per
// element of the source scans its line. For long lines, sorted segments (see sort_plan.hpp), over as many lines at a
// time as keep scratch small. Plain C++.
//
//     const ScatterPlan plan(axis, index, y);
//     plan.bytes();                                       // of scratch
#include <algorithm>

#include <headroom/kernels/gather/internal/sort_plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

struct ScatterPlan {
    /// Indices of a line that each thread scans.
    static constexpr std::int64_t kShortLine = 256;
    /// Positions sorted at a time, unless a single line is longer: 64 MiB of scratch.
    std::int64_t most_sorted = std::int64_t{1} << 22;
    static constexpr std::int64_t kMostKeys = std::int64_t{1} << 31;

    std::int64_t lines = 1, length, rows;  ///< `length` indices per line, which go to `rows` elements
    std::size_t element;                   ///< bytes of a sum

    ScatterPlan(int axis, const View& index, const View& y)
        : length(index.shape[axis]), rows(y.shape[axis]), element(y.dtype == Dtype::f64 ? 8 : 4) {
        for (int i = 0; i < index.rank(); ++i) lines *= i == axis ? 1 : index.shape[i];
    }

    bool sorts() const { return length > kShortLine && lines > 0 && rows > 0; }
    std::int64_t lines_at_once() const {
        return std::clamp<std::int64_t>(std::min(most_sorted / length, kMostKeys / rows), 1, lines);
    }
    SortPlan sort(std::int64_t some) const { return {some * length, some * rows}; }
    SegmentPlan sums(std::int64_t some) const { return {some * length, 1, element}; }
    std::size_t bytes() const { return sorts() ? sort(lines_at_once()).bytes() + sums(lines_at_once()).bytes() : 0; }
};

/// scatter_add by sorted segments, for a plan that sorts; beta is 1, or 0 if y contains zeros.
void scatter_add_sorted(CudaStream& stream, int axis, const View& index, const View& source, const View& y, float beta,
                        const ScatterPlan& plan, std::byte* scratch);

}  // namespace headroom::kernels
