#pragma once
// The loop nest of all reductions over axes; the operations differ only in how they treat an element. Use the plans of
// reduce.hpp.
//
//     const ReductionPlan plan(stream, Reduction::squared_deviation, x, &mean, 1.0 / n, variance, 0);
//     plan.run(stream, scratch);
#include <cstddef>
#include <optional>

#include <headroom/kernels/reduce/internal/partition.hpp>
#include <headroom/kernels/reduce/internal/plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

enum class Reduction {
    sum,
    largest,
    smallest,
    squared_deviation,  // sum of (x - center)^2
    count_equal,        // number of x equal to center
    exp_sum,            // sum of e^(x - center), or of e^x for a center that is not finite
    product,
    product_of_nonzero,
};

/// y = beta * y + scale * (reduction of x). `center`: null, or of the shape of y.
class ReductionPlan {
  public:
    ReductionPlan(const Stream& stream, Reduction reduction, const View& x, const View* center, double scale,
                  const View& y, float beta);

    /// Bytes; none on the CPU. Depends on shapes, strides and dtypes.
    std::size_t scratch() const { return partition_ ? partition_->scratch_bytes() : 0; }
    void run(CpuStream& stream, std::byte* scratch) const;
    /// `scratch`: 8-byte aligned.
    void run(CudaStream& stream, std::byte* scratch) const;
    /// Sets the result's address, if it is known only late.
    void set_result(void* y) { y_.data = y; }

  private:
    Reduction reduction_;
    View x_, y_;
    std::optional<View> center_;
    double scale_;
    float beta_;
    ReduceLoops loops_;
    std::optional<Partition> partition_;  ///< used on a GPU
};

}  // namespace headroom::kernels
