#pragma once
// Reductions of a strided view over any set of its axes: sum (and so mean), largest, smallest, variance, and their
// gradients. The output's shape defines the axes: it has size 1 where the input is reduced, and may lack leading axes,
// as in broadcasting. For sums of a whole arena see sum_of_squares/; for positions along one axis see `argmax` below.
//
//     SumPlan(stream, x, 1.0 / 128, y, 0);            // x [768, 128], y [768, 1]: means of rows
//     SumPlan(stream, dy, 1.0, dbias, 1);             // dy [768, 512], dbias [512]: column sums, added
//     AmaxPlan(stream, x, y);                         // y [768, 1]
//     argmax(stream, x, 1, indices);                  // indices [768, 1], i64
//
// Inputs have any floating dtype and strides (sums also accept integers and bool); f64 and integers are computed in
// f64, everything else in f32. Outputs have any dtype and strides other than 0. Sums are computed in blocks whose
// borders depend only on shape and strides, and the blocks are added in f64. So the bits are the same for any number of
// threads, and the error is at most 70 * epsilon * sum(|x|) for any length, usually far less. An empty sum is 0.
//
// A plan is one call: allocate `plan.scratch()` bytes, usually none on the CPU, then `plan.run(stream, scratch)` on the
// stream that it was planned for. On a GPU large reductions are split over blocks, which write f64 numbers to scratch,
// aligned to 8 bytes. The bytes depend only on shapes, strides and dtypes; data pointers may be null until a plan runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/reduce/internal/engine.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = beta * y + scale * (sum of x over the axes where y has size 1). scale = 1 / n gives the mean; scale = 1 gives
/// the gradient of a broadcast.
struct SumPlan : ReductionPlan {
    SumPlan(const Stream& stream, const View& x, double scale, const View& y, float beta)
        : ReductionPlan(stream, Reduction::sum, x, nullptr, scale, y, beta) {}
};

/// y = the largest (smallest) element of x over the axes where y has size 1; NaN if x has one. Reduced axes must not be
/// empty, which the op checks.
struct AmaxPlan : ReductionPlan {
    AmaxPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::largest, x, nullptr, 1, y, 0) {}
};
struct AminPlan : ReductionPlan {
    AminPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::smallest, x, nullptr, 1, y, 0) {}
};

/// y = the product of x, or only of its nonzero elements, over the axes where y has size 1.
struct ProductPlan : ReductionPlan {
    ProductPlan(const Stream& stream, const View& x, bool of_nonzero, const View& y)
        : ReductionPlan(stream, of_nonzero ? Reduction::product_of_nonzero : Reduction::product, x, nullptr, 1, y, 0) {}
};

/// y = the number of zeros in x, over the axes where y has size 1.
struct ZerosPlan : ReductionPlan {
    ZerosPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::count_equal, x, nullptr, 1, y, 0) {}
};

/// y = the sum of x^2 over the axes where y has size 1.
struct SquaresPlan : ReductionPlan {
    SquaresPlan(const Stream& stream, const View& x, const View& y)
        : ReductionPlan(stream, Reduction::squared_deviation, x, nullptr, 1, y, 0) {}
};

/// largest = the largest element of x, and sum = the sum of e^(x - largest), over the axes where they have size 1, in
/// two passes. If the largest is not finite, sum is the sum of e^x. Dtypes as for `MomentsPlan`'s results.
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

/// mean = mean of x; variance = sum((x - mean)^2) / max(0, n - correction), over the axes where they have size 1. Two
/// passes, so that a large mean loses no digits. Both have the same shape and the dtype that x is computed in (f32; f64
/// for f64), because the second pass reads `mean`. Correction 1 is Bessel's; n <= correction gives infinity, or NaN for
/// equal or no elements.
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

/// The gradient of amax and amin: dx = beta * dx + dy / ties where x equals y, and beta * dx elsewhere. Ties share
/// evenly, as in PyTorch's amax. NaN counts as equal to NaN. Scratch: the number of occurrences of each extreme value,
/// in the type that x is computed in, followed by the memory that a GPU needs to count.
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
    std::size_t count_begin_;  ///< the end of the counts
    ReductionPlan count_;
};

/// The gradient of a sum: dx = beta * dx + scale * dy, with dy broadcast to the shape of dx.
void sum_backward(CpuStream& stream, const View& dy, double scale, const View& dx, float beta);
void sum_backward(CudaStream& stream, const View& dy, double scale, const View& dx, float beta);

/// The gradient of the variance: dx = beta * dx + dvariance * 2 / max(0, n - correction) * (x - mean).
void variance_backward(CpuStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);
void variance_backward(CudaStream& stream, const View& x, const View& mean, const View& dvariance, double correction,
                       const View& dx, float beta);

/// y (i64, size 1 along `axis`) = position of the largest (smallest) element of x along `axis`: the first of equal
/// elements, or the first NaN, as in PyTorch. The axis must not be empty, which the op checks.
void argmax(CpuStream& stream, const View& x, int axis, const View& y);
void argmin(CpuStream& stream, const View& x, int axis, const View& y);
void argmax(CudaStream& stream, const View& x, int axis, const View& y);
void argmin(CudaStream& stream, const View& x, int axis, const View& y);

}  // namespace headroom::kernels
