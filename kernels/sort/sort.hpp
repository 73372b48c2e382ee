#pragma once
// The order of elements along an axis, as positions: all of them, or the first few. Values follow by `gather`.
//
//     ArgsortPlan(stream, x, 1, false, positions);       // x [8, 64], positions i64 [8, 64], ascending
//     TopPlan(stream, x, 1, true, positions);            // positions i64 [8, 5]: of the five largest, largest first
//
// Any dtype and strides. NaN counts as larger than all numbers, as in PyTorch, -0 and 0 as equal; of equal elements the
// one with the smaller position comes first, in either direction. So there is one result, whatever the device.
//
// A plan is one call: `plan.scratch()` bytes of memory, then `plan.run(stream, scratch)`. CPU: 16 bytes per element of
// a line and thread. GPU: about 16 bytes per element, of 2^24 elements at most or of one line, that are sorted at a
// time: a radix sort; for TopPlan, of the elements that a radix selection left. There, a line has less than 2^31
// elements.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/gather/internal/sort_plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Elements that a GPU sorts at a time, unless one line has more of them.
inline constexpr std::int64_t kMostSorted = std::int64_t{1} << 24;

/// y = the positions of the first `y.size(axis)` elements of each line of x along `axis`, by their order.
class OrderPlan {
  public:
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  protected:
    OrderPlan(const Stream& stream, const View& x, int axis, bool descending, const View& y, std::int64_t most);

  private:
    std::int64_t workers(int threads) const;

    View x_, y_;  ///< the axis is the last one
    bool descending_;
    std::int64_t lines_ = 1, length_ = 1, kept_ = 1;  ///< of each line
    std::int64_t lines_at_once_ = 1;                  ///< on a GPU
    SortPlan sort_;                                   ///< of these
    std::size_t scratch_ = 0;
};

/// All positions; x and y have one shape.
struct ArgsortPlan : OrderPlan {
    ArgsortPlan(const Stream& stream, const View& x, int axis, bool descending, const View& y,
                std::int64_t most_sorted = kMostSorted)
        : OrderPlan(stream, x, axis, descending, y, most_sorted) {}
};

/// The positions of the largest elements, or of the smallest, in that order; y may be smaller than x along the axis.
struct TopPlan : OrderPlan {
    TopPlan(const Stream& stream, const View& x, int axis, bool largest, const View& y,
            std::int64_t most_sorted = kMostSorted)
        : OrderPlan(stream, x, axis, largest, y, most_sorted) {}
};

}  // namespace headroom::kernels
