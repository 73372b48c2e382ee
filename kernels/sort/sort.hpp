#pragma once
// The sorted order of elements along an axis, as positions: all of them, or the first few. For the values use `gather`.
//
//     ArgsortPlan(stream, x, 1, false, positions);       // x [8, 64], positions i64 [8, 64], ascending
//     TopPlan(stream, x, 1, true, positions);            // positions i64 [8, 5]: of the five largest, largest first
//
// Any dtype and strides. NaN counts as larger than all numbers, as in PyTorch, and -0 equals 0; equal elements stay in
// order of position, in either direction. So every device gives the same result.
//
// A plan is one call: allocate `plan.scratch()` bytes, then `plan.run(stream, scratch)`. CPU: 16 bytes per element of a
// line, per thread. GPU: about 16 bytes per element that the radix sort handles at a time: up to 2^24 elements, or one
// line. TopPlan sorts only the elements left by a radix selection. A line has fewer than 2^31 elements on a GPU.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/gather/internal/sort_plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Elements that a GPU sorts at a time, unless a single line has more.
inline constexpr std::int64_t kMostSorted = std::int64_t{1} << 24;

/// y = the positions of the first `y.size(axis)` elements of each line of x along `axis`, in sorted order.
class OrderPlan {
  public:
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  protected:
    OrderPlan(const Stream& stream, const View& x, int axis, bool descending, const View& y, std::int64_t most);

  private:
    std::int64_t workers(int threads) const;

    View x_, y_;  ///< with the axis moved to the end
    bool descending_;
    std::int64_t lines_ = 1, length_ = 1, kept_ = 1;  ///< per line
    std::int64_t lines_at_once_ = 1;                  ///< on a GPU
    SortPlan sort_;                                   ///< for these lines
    std::size_t scratch_ = 0;
};

/// All positions; x and y have the same shape.
struct ArgsortPlan : OrderPlan {
    ArgsortPlan(const Stream& stream, const View& x, int axis, bool descending, const View& y,
                std::int64_t most_sorted = kMostSorted)
        : OrderPlan(stream, x, axis, descending, y, most_sorted) {}
};

/// The positions of the largest or smallest elements, in sorted order; y may be smaller than x along the axis.
struct TopPlan : OrderPlan {
    TopPlan(const Stream& stream, const View& x, int axis, bool largest, const View& y,
            std::int64_t most_sorted = kMostSorted)
        : OrderPlan(stream, x, axis, largest, y, most_sorted) {}
};

}  // namespace headroom::kernels
