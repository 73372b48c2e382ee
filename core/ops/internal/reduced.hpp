#pragma once
// Result shapes of reductions, and the common parts of their ops.
//
//     const Reduced to = reduced("sum", x.shape(), attrs.axes, attrs.keepdim);
//     Array y = to.like(exec, x, x.dtype);
//     exec.run<kernels::SumPlan>(x.view(), 1.0, seen_as(y, to.kept), 0.0f);
#include <headroom/core/ops/reduce.hpp>

namespace headroom::ops {

/// Bit i is set if axis i is listed. Errors: ShapeError for an axis that does not exist or is listed twice.
unsigned axes_mask(const char* op, const Shape& shape, const Axes& axes);

/// The shapes of a result: `kept` for kernels, with reduced axes of size 1, and `shape` for the caller.
struct Reduced {
    Shape kept;
    Shape shape;
    std::int64_t count = 1;  ///< elements reduced to one

    /// A new array of the caller's shape, with x's order of axes in memory.
    Array like(Exec& exec, const Array& x, Dtype dtype) const;
};

Reduced reduced(const char* op, const Shape& x, const Axes& axes, bool keepdim);
/// The same for ops that choose an element. Errors: also ShapeError if there is none to choose from.
Reduced chosen(const char* op, const Shape& x, const Axes& axes, bool keepdim);

/// A view of the array with axes of size 1 added or removed.
View seen_as(const Array& array, const Shape& shape);
/// dy with reduced axes of size 1, so that it broadcasts to x.
View stretched(const char* op, const Array& dy, const Shape& x, const ReduceAttrs& attrs);

/// The destination of a kernel's result in the dtype it computes in: y itself, or a wider copy if y is half precision.
class WideResult {
  public:
    /// `kept`: y's shape with reduced axes of size 1.
    WideResult(Exec& exec, const Array& y, const Shape& kept);
    View view() const { return seen_as(wide_, kept_); }
    /// Rounds the finished result into y if y is half precision.
    void round(Exec& exec) const;

  private:
    const Array& y_;
    Shape kept_;
    Array wide_;
};

/// Samples with all kinds of axes, also invalid ones.
std::vector<Sample<ReduceAttrs>> reduction_samples(SampleInput (*input)(Shape), bool of_nothing);

}  // namespace headroom::ops
