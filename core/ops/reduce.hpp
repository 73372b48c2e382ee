#pragma once
// Reductions over any axes: sum, mean, largest, smallest, variance; and the position of the largest along one axis. For
// products, norms and log-sum-exp see prod.hpp, norm.hpp and logsumexp.hpp; for normalisation layer_norm.hpp.
//
//     Tensor total = sum(x);                       // all axes: a scalar
//     Tensor rows = mean(x, {-1}, true);           // [768, 128] -> [768, 1]
//     Tensor spread = var(x, {0, 1});              // [2, 3, 4] -> [4]
//     Tensor best = argmax(logits, -1);            // i64
//
// Negative axes count from the back; no axes means all. Reduced axes are dropped, or kept with size 1 if `keepdim`. A
// tensor of rank 0 accepts 0 and -1 for its only "axis", as in PyTorch. Errors: ShapeError for axes that do not exist
// or are listed twice, and for empty axes if the result is undefined (`max`, `min`, `argmax`); DtypeError.
#include <initializer_list>

#include <headroom/core/apply.hpp>

namespace headroom {

/// The axes of a reduction: a list, a container, or a single axis.
class Axes {
  public:
    Axes() = default;
    Axes(std::initializer_list<int> axes) {  // NOLINT(google-explicit-constructor): a list reads as axes
        for (const int axis : axes) add(axis);
    }
    template <kernels::IntegerContainer C>
    Axes(const C& axes) {  // NOLINT(google-explicit-constructor)
        for (const auto axis : axes) add(axis);
    }
    Axes(int axis) { add(axis); }  // NOLINT(google-explicit-constructor)
    const std::int8_t* begin() const { return axes_; }
    const std::int8_t* end() const { return axes_ + count_; }

  private:
    void add(std::int64_t axis);

    std::int8_t axes_[kMaxRank] = {};
    std::int8_t count_ = 0;
};

namespace ops {

struct ReduceAttrs {
    Axes axes;
    bool keepdim = false;
    double correction = 1.0;  ///< for `var` and `std`
};

struct Sum {
    static constexpr OpInfo info{.name = "sum"};
    using Attrs = ReduceAttrs;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

struct Mean {
    static constexpr OpInfo info{.name = "mean"};
    using Attrs = ReduceAttrs;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};

/// The largest element, or the smallest.
template <bool kLargest>
struct Extremum {
    static constexpr OpInfo info{.name = kLargest ? "max" : "min"};
    using Attrs = ReduceAttrs;
    struct Saved {
        Array x;
        Array y;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};
using Max = Extremum<true>;
using Min = Extremum<false>;

/// The variance, or its square root.
template <bool kRoot>
struct Spread {
    struct OfVariance {
        Array x;
        Array mean;
    };
    struct OfDeviation {
        Array x;
        Array mean;
        Array y;
    };
    static constexpr OpInfo info{.name = kRoot ? "standard_deviation" : "var"};
    using Attrs = ReduceAttrs;
    using Saved = std::conditional_t<kRoot, OfDeviation, OfVariance>;
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static void backward(Exec& exec, const Attrs& attrs, const Saved& saved, Array dy, GradSink sink);
    static std::vector<Sample<Attrs>> samples();
};
using Var = Spread<false>;
using Std = Spread<true>;

template <bool kLargest>
struct Position {
    static constexpr OpInfo info{.name = kLargest ? "argmax" : "argmin"};
    struct Attrs {
        int axis = -1;
        bool keepdim = false;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};
using Argmax = Position<true>;
using Argmin = Position<false>;

}  // namespace ops

/// The sum, in the dtype of x; integers and bool are summed as i64, exactly up to 2^53.
Tensor sum(Tensor x, const Axes& axes = {}, bool keepdim = false);
/// The sum of a floating x divided by the number of its terms.
Tensor mean(Tensor x, const Axes& axes = {}, bool keepdim = false);
/// The largest element; NaN if x has one. Equal elements share the gradient. Integers are exact up to 2^53.
Tensor max(Tensor x, const Axes& axes = {}, bool keepdim = false);
/// The smallest element; otherwise as `max`.
Tensor min(Tensor x, const Axes& axes = {}, bool keepdim = false);
/// sum((x - mean)^2) / max(0, n - correction) of a floating x; correction 1 is Bessel's. If n <= correction, the result
/// is infinity, or NaN for equal or no elements, and so is the gradient, as in PyTorch.
Tensor var(Tensor x, const Axes& axes = {}, double correction = 1.0, bool keepdim = false);
/// The square root of `var`, PyTorch's `std`; its gradient is 0 where all elements are equal.
Tensor standard_deviation(Tensor x, const Axes& axes = {}, double correction = 1.0, bool keepdim = false);
/// `any`: true if at least one element of x, of any dtype, is nonzero. `all`: true if every element is nonzero. Without
/// elements, they are false and true. Counted in i64, after a comparison with 0 unless x is bool.
Tensor any(Tensor x, const Axes& axes = {}, bool keepdim = false);
Tensor all(Tensor x, const Axes& axes = {}, bool keepdim = false);
/// The position (i64) of the largest element along an axis: the first of equal elements, or the first NaN.
Tensor argmax(Tensor x, int axis = -1, bool keepdim = false);
/// The position of the smallest element; otherwise as `argmax`.
Tensor argmin(Tensor x, int axis = -1, bool keepdim = false);

}  // namespace headroom
