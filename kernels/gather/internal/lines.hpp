#pragma once
// The order in which gather and scatter walk: runs of elements along the last axis, grouped into lines such that two
// lines never share an element of the indexed view. So lines may run in parallel, and the order within a line is fixed.
//
//     const GatherLines lines(x, axis, index, y);
//     parallel_for(stream, lines.count(), cost, [&](std::int64_t line) {
//         for (std::int64_t i = 0; i < lines.positions(); ++i) use(lines.run(line, i));
//     });
#include <algorithm>
#include <cstdint>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// A run of `count` elements: where it begins, and its steps in the indexed view x, the indices and the other view y.
/// The position in x advances by x_axis per unit of the index.
struct GatherRun {
    std::int64_t count = 0;
    std::int64_t x = 0, x_step = 0, x_axis = 0;
    std::int64_t index = 0, index_step = 0;
    std::int64_t y = 0, y_step = 0;

    /// The whole run has one index: it is a slice.
    bool one_index() const { return index_step == 0 && x_step != 0; }
};

class GatherLines {
  public:
    /// The largest number of elements in a run.
    static constexpr std::int64_t kBlock = 256;

    /// `index` has the shape that is walked, not empty; x and y are at least as large (x: except along `axis`).
    GatherLines(const View& x, int axis, const View& index, const View& y) : x_(x), index_(index), y_(y), axis_(axis) {
        if (x_.rank() == 0) {
            for (View* view : {&x_, &index_, &y_}) view->shape.push_back(1), view->strides.push_back(1);
            axis_ = 0;
        }
        last_ = index_.rank() - 1;
        length_ = index_.shape[last_];
        blocks_ = (length_ + kBlock - 1) / kBlock;
        for (int i = 0; i < last_; ++i) outer_ *= i == axis_ ? 1 : index_.shape[i];
    }

    /// If `axis` is the last axis, all runs of a row form one line.
    std::int64_t count() const { return axis_ == last_ ? outer_ : outer_ * blocks_; }
    std::int64_t positions() const { return axis_ == last_ ? blocks_ : index_.shape[axis_]; }

    GatherRun run(std::int64_t line, std::int64_t position) const {
        GatherRun result;
        const std::int64_t block = axis_ == last_ ? position : line % blocks_;
        std::int64_t outer = axis_ == last_ ? line : line / blocks_;
        const auto move = [&](int axis, std::int64_t steps) {
            if (axis != axis_) result.x += steps * x_.strides[axis];
            result.index += steps * index_.strides[axis];
            result.y += steps * y_.strides[axis];
        };
        if (axis_ != last_) move(axis_, position);
        for (int i = last_ - 1; i >= 0; --i) {
            if (i == axis_) continue;
            move(i, outer % index_.shape[i]);
            outer /= index_.shape[i];
        }
        move(last_, block * kBlock);
        result.count = std::min(kBlock, length_ - block * kBlock);
        result.x_step = axis_ == last_ ? 0 : x_.strides[last_];
        result.x_axis = x_.strides[axis_];
        result.index_step = index_.strides[last_];
        result.y_step = y_.strides[last_];
        return result;
    }

  private:
    View x_, index_, y_;
    int axis_, last_ = 0;
    std::int64_t length_ = 1, blocks_ = 1, outer_ = 1;
};

}  // namespace headroom::kernels
