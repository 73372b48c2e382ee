#pragma once
// The shapes of reductions, and what their ops have in common.
//
//     const Reduced to = reduced("sum", x.shape(), attrs.axes, attrs.keepdim);
//     Array y = to.like(exec, x, x.dtype);
//     exec.run<kernels::SumPlan>(x.view(), 1.0, seen_as(y, to.kept), 0.0f);
#include <headroom/core/ops/reduce.hpp>

namespace headroom::ops {

/// Bit i: axis i is named. Errors: ShapeError for an axis that does not exist or is named twice.
unsigned axes_mask(const char* op, const Shape& shape, const Axes& axes);

/// The shape of a result: as kernels want it, with reduced axes of size 1, and as the caller wants it.
struct Reduced {
    Shape kept;
    Shape shape;
    std::int64_t count = 1;  ///< elements that become one

    /// Room for a result as the caller wants it, whose axes stand in memory in the order in which they do in x.
    Array like(Exec& exec, const Array& x, Dtype dtype) const;
};

Reduced reduced(const char* op, const Shape& x, const Axes& axes, bool keepdim);
/// The same where there must be something to choose from.
Reduced chosen(const char* op, const Shape& x, const Axes& axes, bool keepdim);

/// The array with axes of size 1 added or left out.
View seen_as(const Array& array, const Shape& shape);
/// dy with reduced axes of size 1, as it stretches to x.
View stretched(const char* op, const Array& dy, const Shape& x, const ReduceAttrs& attrs);

/// Where a kernel leaves a result in the dtype that it computes in: in y itself, or beside a y of halves.
class WideResult {
  public:
    /// `kept`: y's shape with reduced axes of size 1.
    WideResult(Exec& exec, const Array& y, const Shape& kept);
    View view() const { return seen_as(wide_, kept_); }
    /// Writes halves, once the result is there.
    void round(Exec& exec) const;

  private:
    const Array& y_;
    Shape kept_;
    Array wide_;
};

/// Axes of all kinds, and wrong ones.
std::vector<Sample<ReduceAttrs>> reduction_samples(SampleInput (*input)(Shape), bool of_nothing);

}  // namespace headroom::ops
