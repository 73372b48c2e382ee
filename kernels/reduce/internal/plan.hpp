#pragma once
// The order in which a reduction walks through memory: axes are merged where strides allow, and sorted so that the
// innermost loop follows the input's smallest stride.
//
//     const ReduceLoops loops(x, center, y);
//     if (loops.columns) ...   // the innermost axis is kept: rows are added to a block of accumulators
//     else ...                // it is reduced: a run becomes one number
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// One loop: its length and its strides in the input, the output and the centers, in elements.
struct ReduceAxis {
    std::int64_t size = 1, x = 0, y = 0, center = 0;
};

struct ReduceOffsets {
    std::int64_t x = 0, y = 0, center = 0;
};

/// At most kMaxRank loops, outermost first.
class ReduceAxes {
  public:
    std::span<const ReduceAxis> axes() const { return {axes_.data(), count_}; }
    bool empty() const { return count_ == 0; }
    ReduceAxis& back() { return axes_[count_ - 1]; }
    const ReduceAxis& back() const { return axes_[count_ - 1]; }
    void push_back(const ReduceAxis& axis) { axes_[count_++] = axis; }
    ReduceAxis pop_back() { return axes_[--count_]; }
    std::int64_t numel() const {
        std::int64_t product = 1;
        for (const ReduceAxis& axis : axes()) product *= axis.size;
        return product;
    }
    /// The offsets at step `index` of `numel()`.
    ReduceOffsets offsets(std::int64_t index) const {
        ReduceOffsets result;
        for (std::size_t i = count_; i-- > 0;) {
            std::int64_t position = index;
            if (i > 0) {  // the division costs as much as a short row
                position = index % axes_[i].size;
                index /= axes_[i].size;
            }
            result.x += position * axes_[i].x;
            result.y += position * axes_[i].y;
            result.center += position * axes_[i].center;
        }
        return result;
    }
    /// The part [part * n / parts, (part + 1) * n / parts) of the longest outermost loop, and where it starts.
    ReduceAxes part(std::int64_t part, std::int64_t parts, std::int64_t& start) const;

    /// Calls `work(offset in x)` for every step, in order.
    template <class Work>
    void for_each(Work&& work) const {
        std::array<std::int64_t, kMaxRank> position{};
        if (numel() == 0) return;
        for (std::int64_t offset = 0;;) {
            work(offset);
            std::size_t i = count_;
            for (; i-- > 0;) {
                offset += axes_[i].x;
                if (++position[i] < axes_[i].size) break;
                offset -= axes_[i].size * axes_[i].x;
                position[i] = 0;
            }
            if (i == static_cast<std::size_t>(-1)) return;
        }
    }

  private:
    std::array<ReduceAxis, kMaxRank> axes_{};
    std::size_t count_ = 0;
};

struct ReduceLoops {
    /// `y` may lack leading axes; `center` is null or has the shape of y.
    ReduceLoops(const View& x, const View* center, const View& y);

    ReduceAxes kept, reduced;
    /// The innermost loop, taken out of `kept` (columns) or `reduced`.
    ReduceAxis inner;
    bool columns = false;
};

}  // namespace headroom::kernels
