#include <headroom/nn/detection_boxes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/cat.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/expand.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/sort.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::nn {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Centres and sizes of boxes [..., 4], each [...].
struct Centred {
    explicit Centred(const Tensor& boxes)
        : width(boxes.select(-1, 2) - boxes.select(-1, 0)),
          height(boxes.select(-1, 3) - boxes.select(-1, 1)),
          x(boxes.select(-1, 0) + 0.5 * width),
          y(boxes.select(-1, 1) + 0.5 * height) {}

    Tensor width, height, x, y;
};

/// The overlap of ranges along one axis of boxes a [M, 4] and b [K, 4], at least 0: [M, K].
Tensor overlap(const Tensor& a, const Tensor& b, int axis) {
    Tensor end = minimum(a.select(-1, axis + 2).unsqueeze(1), b.select(-1, axis + 2));
    return clamp(std::move(end) - maximum(a.select(-1, axis).unsqueeze(1), b.select(-1, axis)), 0, kInfinity);
}

Tensor area(const Tensor& boxes) {
    return (boxes.select(-1, 2) - boxes.select(-1, 0)) * (boxes.select(-1, 3) - boxes.select(-1, 1));
}

}  // namespace

std::vector<double> anchor_cells(double size, const std::vector<double>& ratios) {
    std::vector<double> cells;
    for (const double ratio : ratios) {
        const double height = std::sqrt(ratio), width = 1 / height;
        for (const double half : {-width, -height, width, height}) cells.push_back(std::nearbyint(half * size / 2));
    }
    return cells;
}

Tensor anchors(const Tensor& cells, IntPair level, IntPair image) {
    const NoGradGuard guard(cells.context());
    const auto shifts = [&](std::size_t axis, const Shape& shape) {
        const double step = static_cast<double>(image[axis] / level[axis]);
        Tensor along = arange(cells.context(), 0, level[axis], 1, cells.dtype()) * step;
        return expand(along.reshape(shape), {level[0], level[1], 1, 1});
    };
    const Tensor x = shifts(1, {1, level[1], 1, 1}), y = shifts(0, {level[0], 1, 1, 1});
    return (cat({x, y, x, y}, -1) + cells).reshape({-1, 4});
}

Tensor BoxCoder::encode(const Tensor& boxes, const Tensor& from) const {
    const Centred to(boxes), of(from);
    return stack({weights[0] * (to.x - of.x) / of.width, weights[1] * (to.y - of.y) / of.height,
                  weights[2] * log(to.width / of.width), weights[3] * log(to.height / of.height)},
                 -1);
}

Tensor BoxCoder::decode(const Tensor& codes, const Tensor& from) const {
    const Centred of(from);
    const auto code = [&](int i) { return codes.select(-1, i) / weights[static_cast<std::size_t>(i)]; };
    const double most = std::log(1000.0 / 16);
    const Tensor x = code(0) * of.width + of.x, y = code(1) * of.height + of.y;
    const Tensor half_width = 0.5 * (exp(clamp(code(2), -kInfinity, most)) * of.width);
    const Tensor half_height = 0.5 * (exp(clamp(code(3), -kInfinity, most)) * of.height);
    return stack({x - half_width, y - half_height, x + half_width, y + half_height}, -1);
}

Tensor clip_boxes(const Tensor& boxes, IntPair image) {
    std::vector<Tensor> edges;
    for (int i = 0; i < 4; ++i) edges.push_back(clamp(boxes.select(-1, i), 0, image[i % 2 == 0 ? 1 : 0]));
    return stack(std::move(edges), -1);
}

Tensor sides_are_least(const Tensor& boxes, double side) {
    return logical_and(boxes.select(-1, 2) - boxes.select(-1, 0) >= side,
                       boxes.select(-1, 3) - boxes.select(-1, 1) >= side);
}

Tensor box_iou(const Tensor& a, const Tensor& b) {
    const Tensor both = overlap(a, b, 0) * overlap(a, b, 1);
    return both / (area(a).unsqueeze(1) + area(b) - both);
}

Matches match(const Tensor& overlaps, const Tensor& present, const MatchOptions& options) {
    const NoGradGuard guard(overlaps.context());
    const Tensor those = masked_fill(overlaps, logical_not(present.unsqueeze(1)), -1);
    const Tensor best = max(those, {0});
    const Tensor undecided = logical_and(best >= options.negative, best < options.positive);
    Tensor kinds = cast(best >= options.positive, Dtype::i64) - cast(undecided, Dtype::i64);
    if (options.each_object) {
        Tensor most = max(those, {1}, true);
        most = masked_fill(most, most <= 0.0, 2);  // an object that no box overlaps has none
        kinds = masked_fill(std::move(kinds), any(those == most, {0}), 1);
    }
    return {argmax(those, 0), std::move(kinds)};
}

BoxSample sample_balanced(const Tensor& labels, std::int64_t count, double fraction) {
    const NoGradGuard guard(labels.context());
    const std::int64_t places = std::min(count, labels.size(1));
    const auto most = std::min(places, static_cast<std::int64_t>(static_cast<double>(count) * fraction));
    const Tensor draws = rand(labels.context(), labels.shape());
    const Tensor objects = labels > 0.0, others = labels == 0.0;
    const Tensor any_objects = topk(masked_fill(draws, logical_not(objects), -1), most).indices;
    const Tensor any_others = topk(masked_fill(draws, logical_not(others), -1), places).indices;
    const Tensor n_objects = clamp(sum(objects, {1}, true), 0, most);
    const Tensor n_others = sum(others, {1}, true);
    const Tensor place = arange(labels.context(), 0, places).unsqueeze(0);
    Tensor indices =
        gather(cat({any_objects, any_others}, 1), 1, where(place < n_objects, place, place - n_objects + most));
    Tensor chosen = gather(labels, 1, indices);
    chosen = masked_fill(std::move(chosen), place >= n_objects + n_others, -1);
    return {std::move(indices), std::move(chosen), most};
}

Tensor take_rows(const Tensor& x, const Tensor& indices) {
    const std::int64_t images = x.size(0), rows = x.size(1);
    Shape flat = x.shape(), result = x.shape();
    flat.erase(0);
    flat[0] = images * rows;
    result[1] = indices.size(1);
    const Tensor begins = arange(x.context(), 0, images * rows, rows).unsqueeze(1);
    return index_select(x.reshape(flat), 0, (indices + begins).flatten()).reshape(result);
}

}  // namespace headroom::nn
