#include <headroom/kernels/reduce/internal/plan.hpp>

#include <algorithm>
#include <cstdlib>

namespace headroom::kernels {

namespace {

struct Candidate {
    ReduceAxis axis;
    bool reduced = false;
};

// A stride of 0 repeats one element: such loops go outside, where they cost no locality.
bool outside(const Candidate& a, const Candidate& b) {
    const std::int64_t stride_a = std::abs(a.axis.x), stride_b = std::abs(b.axis.x);
    if ((stride_a == 0) != (stride_b == 0)) return stride_a == 0;
    return stride_a > stride_b;
}

void append(ReduceAxes& axes, const ReduceAxis& next, bool reduced) {
    if (!axes.empty()) {
        ReduceAxis& last = axes.back();
        const bool x_merges = last.x == next.x * next.size;
        const bool rest_merges = last.y == next.y * next.size && last.center == next.center * next.size;
        if (x_merges && (reduced || rest_merges)) {
            last = {last.size * next.size, next.x, next.y, next.center};
            return;
        }
    }
    axes.push_back(next);
}

}  // namespace

ReduceAxes ReduceAxes::part(std::int64_t part, std::int64_t parts, std::int64_t& start) const {
    ReduceAxes result = *this;
    const auto longest = std::max_element(result.axes_.begin(), result.axes_.begin() + count_,
                                          [](const auto& a, const auto& b) { return a.size < b.size; });
    const std::int64_t first = longest->size * part / parts;
    start = first * longest->x;
    longest->size = longest->size * (part + 1) / parts - first;
    return result;
}

ReduceLoops::ReduceLoops(const View& x, const View* center, const View& y) {
    std::array<Candidate, kMaxRank> candidates;
    std::size_t count = 0;
    const int missing = x.rank() - y.rank();
    for (int i = 0; i < x.rank(); ++i) {
        if (x.shape[i] == 1) continue;
        const int j = i - missing;
        const bool is_reduced = j < 0 || y.shape[j] == 1;
        ReduceAxis axis{.size = x.shape[i], .x = x.strides[i]};
        if (!is_reduced) {
            axis.y = y.strides[j];
            axis.center = center ? center->strides[j] : 0;
        }
        candidates[count++] = {axis, is_reduced};
    }
    std::stable_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), outside);
    for (std::size_t i = 0; i < count; ++i) {
        append(candidates[i].reduced ? reduced : kept, candidates[i].axis, candidates[i].reduced);
    }
    columns = count > 0 && !candidates[count - 1].reduced;
    if (columns) {
        inner = kept.pop_back();
    } else if (!reduced.empty()) {
        inner = reduced.pop_back();
    }
}

}  // namespace headroom::kernels
