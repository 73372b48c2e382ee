#pragma once
// Reductions of a strided view over any set of its axes: sum (and so mean), largest, smallest, variance, and their
// gradients. The output's shape defines the axes: it has size 1 where the input is reduced, and may lack leading axes,
// as in broadcasting. Not for sums of a whole arena (see norm/) nor along one axis with indices (`argmax` below).
//
//     SumPlan(stream, x, 1.0 / 128, y, 0);            // x [768, 128], y [768, 1]: means of rows
//     SumPlan(stream, dy, 1.0, dbias, 1);             // dy [768, 512], dbias [512]: column sums, added
//     AmaxPlan(stream, x, y);                         // y [768, 1]
//     argmax(stream, x, 1, indices);                  // indices [768, 1], i64
//
// Inputs have any floating dtype and strides (sums take integers and bool too); f64 and integers are computed in f64,
// the rest in f32. Outputs have any dtype and strides other than 0. Sums are formed in blocks whose borders depend on
// the shape and strides alone, and the blocks are added up in f64: the same bits for any number of threads, and an
// error of at most 70 * epsilon * sum(|x|) whatever the length, usually far less. A sum of nothing is 0.
//
// A plan is one call: `plan.scratch()` bytes of memory, none on the CPU for most, then `plan.run(stream, scratch)` on
// the stream that it was planned for. On a GPU large reductions are shared out among blocks, which leave f64 numbers in
// scratch, of 8-byte alignment. Bytes depend on shapes, strides and dtypes alone; data pointers may be null until a
// plan runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/reduce/internal/engine.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = beta * y + scale * (sum of x over the axes where y has size 1). With scale = 1 / n: the mean. With scale = 1:
/// the gradient of a broadcast.
struct SumPlan : ReductionPlan {
    SumPlan(const Stream& stream, const View& x, double scale, const View& y, float beta)
        : ReductionPlan(stream, Reduction::sum, x, nullptr, scale, y, beta) {}
};

/// y = the largest (smallest) element of x over the axes where y has size 1; NaN if there is one. Reduced axes must
/// not be empty: the op checks.
struct AmaxPlan : ReductionPlan {
    AmaxPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::largest, x, nullptr, 1, y, 0) {}
};
struct AminPlan : ReductionPlan {
    AminPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::smallest, x, nullptr, 1, y, 0) {}
};

/// y = the product of x, or of its elements other than 0, over the axes where y has size 1.
struct ProductPlan : ReductionPlan {
    ProductPlan(const Stream& stream, const View& x, bool of_nonzero, const View& y)
        : ReductionPlan(stream, of_nonzero ? Reduction::product_of_nonzero : Reduction::product, x, nullptr, 1, y, 0) {}
};

/// y = how many elements of x are 0, over the axes where y has size 1.
struct ZerosPlan : ReductionPlan {
    ZerosPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::count_equal, x, nullptr, 1, y, 0) {}
};

/// y = the sum of x^2 over the axes where y has size 1.
struct SquaresPlan : ReductionPlan {
    SquaresPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::squared_deviation, x, nullptr, 1, y, 0) {}
};

/// largest = the largest element of x, sum = the sum of e^(x - largest) over the axes where they have size 1, in two
/// passes; where the largest is not finite, the sum of e^x. Both as `MomentsPlan`'s results.
class ExpSumPlan {
  public:
    ExpSumPlan(const Stream& stream, const View& x, const View& largest, const View& sum)
        : largest_(stream, Reduction::largest, x, nullptr, 1, largest, 0),
          sum_(stream, Reduction::exp_sum, x, &largest, 1, sum, 0) {}

    std::size_t scratch() const { return std::max(largest_.scratch(), sum_.scratch()); }
    template <class AnyStream>
    void run(AnyStream& stream, std::byte* scratch) const {
        largest_.run(stream, scratch);
        sum_.run(stream, scratch);
    }

  private:
    ReductionPlan largest_, sum_;
};

/// mean = mean of x; variance = sum((x - mean)^2) / max(0, n - correction) over the axes where they have size 1: two
/// passes, so that a large mean costs no digits. Both have the same shape. Both need the dtype in which x is computed
/// (f32; f64 for f64): the second pass reads `mean`. Correction 1 is Bessel's; n <= correction gives infinity or, of
/// equal elements or none, NaN.
class MomentsPlan {
  public:
    MomentsPlan(const Stream& stream, const View& x, double correction, const View& mean, const View& variance);

    std::size_t scratch() const { return std::max(mean_.scratch(), variance_.scratch()); }
    template <class AnyStream>
    void run(AnyStream& stream, std::byte* scratch) const {
        mean_.run(stream, scratch);
        variance_.run(stream, scratch);
    }

  private:
    ReductionPlan mean_, variance_;
};

/// The gradient of amax and amin: dx = beta * dx + dy / ties where x equals y, elsewhere + 0. Ties share evenly, as
/// PyTorch's amax does. NaN counts as equal to NaN. Scratch: how often each extreme value occurs, in the type in which
/// x is computed, and behind that the memory that a GPU needs to count.
class ExtremumGradientPlan {
  public:
    ExtremumGradientPlan(const Stream& stream, const View& x, const View& y, const View& dy, const View& dx,
                         float beta);

    std::size_t scratch() const { return count_begin_ + count_.scratch(); }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    template <class AnyStream>
    View count_ties(AnyStream& stream, std::byte* scratch) const {
        ReductionPlan count = count_;
        count.set_result(scratch);
        count.run(stream, scratch + count_begin_);
        View ties = ties_;
        ties.data = scratch;
        return ties;
    }

    View x_, y_, dy_, dx_;
    float beta_;
    View ties_;                ///< without data
    std::size_t count_begin_;  ///< where the counts end
    ReductionPlan count_;
};

/// The gradient of a sum: dx = beta * dx + scale * dy, dy stretched to the shape of dx.
void sum_backward(CpuStream& stream, const View& dy, double scale, const View& dx, float beta);
void sum_backward(CudaStream& stream, const View& dy, double scale, const View& dx, float beta);

/// The gradient of the variance: dx = beta * dx + dvariance * 2 / max(0, n - correction) * (x - mean).
void variance_backward(CpuStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);
void variance_backward(CudaStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);

/// y (i64, size 1 along `axis`) = position of the largest (smallest) element of x along `axis`: the first one among
/// equals; the first NaN if there is one, as in PyTorch. The axis must not be empty: the op checks.
void argmax(CpuStream& stream, const View& x, int axis, const View& y);
void argmin(CpuStream& stream, const View& x, int axis, const View& y);
void argmax(CudaStream& stream, const View& x, int axis, const View& y);
void argmin(CudaStream& stream, const View& x, int axis, const View& y);

}  // namespace headroom::kernels
