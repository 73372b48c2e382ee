#pragma once
// Cumulative sums along an axis. For one sum of all elements see reduce/.
//
//     CumsumPlan(stream, x, 1, false, y, 0);         // y[i][j] = x[i][0] + ... + x[i][j]
//     CumsumPlan(stream, dy, 1, true, dx, 1);        // its gradient: sums from the end, added
//
// Any dtype and strides; y's strides must not be 0. Integers and bool are summed in i64, modulo 2^64. If x or y is f64,
// sums are computed in f64. Everything else is summed in f64 on the CPU; on a GPU in f32 within 256 elements and in f64
// beyond. The order depends only on shapes and strides, so the bits are always the same.
//
// A plan is one call: allocate `plan.scratch()` bytes, none on the CPU, then `plan.run(stream, scratch)`. GPU: a long
// line is cut into parts, whose sums are computed first and kept in scratch.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = beta * y + sums of x along `axis`, from its start or, if `reverse`, from its end; each sum includes its own
/// element. x and y have the same shape.
class CumsumPlan {
  public:
    CumsumPlan(const Stream& stream, const View& x, int axis, bool reverse, const View& y, float beta);

    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View x_, y_;
    int axis_;
    float beta_;
    std::int64_t part_ = 0;  ///< on a GPU: elements of a line that are summed one after another
    std::int64_t parts_ = 1;
    std::size_t scratch_ = 0;
};

}  // namespace headroom::kernels
