#pragma once
// Comparisons of two tensors, with broadcasting, or of a tensor and a number; and logical functions. Results are bool,
// without a gradient. To choose values by them see where.hpp.
//
//     Tensor mask = x < 0.5;
//     Tensor both = logical_and(mask, ids != padding);
//     Tensor hits = sum(argmax(logits) == targets);        // i64
//
// Mixed dtypes are compared in the wider one. Comparisons with NaN are false, except `ne`, which is true. Errors:
// ShapeError.
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

/// A function of two arguments with a bool result.
template <class F>
struct Comparison {
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full};
    using Attrs = F;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& a, const Array& b);
    static std::vector<Sample<Attrs>> samples();
};

/// A function of one argument with a bool result.
template <class F>
struct Predicate {
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full};
    using Attrs = F;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};

/// Adds all of both kinds to the list, for `all_ops`.
void add_comparisons(std::vector<OpEntry>& all);

}  // namespace ops

/// a == b
Tensor eq(Tensor a, Tensor b);
/// a != b
Tensor ne(Tensor a, Tensor b);
/// a < b
Tensor lt(Tensor a, Tensor b);
/// a <= b
Tensor le(Tensor a, Tensor b);
/// a > b
Tensor gt(Tensor a, Tensor b);
/// a >= b
Tensor ge(Tensor a, Tensor b);

/// a == b for a number b, which is rounded to the dtype of a if that is floating. The next five round it in the same
/// way.
Tensor eq(Tensor a, double b);
Tensor ne(Tensor a, double b);
Tensor lt(Tensor a, double b);
Tensor le(Tensor a, double b);
Tensor gt(Tensor a, double b);
Tensor ge(Tensor a, double b);

// The same as operators. The results are tensors, element by element, so they can't be the condition of an `if`.
Tensor operator==(Tensor a, Tensor b);
Tensor operator!=(Tensor a, Tensor b);
Tensor operator<(Tensor a, Tensor b);
Tensor operator<=(Tensor a, Tensor b);
Tensor operator>(Tensor a, Tensor b);
Tensor operator>=(Tensor a, Tensor b);

Tensor operator==(Tensor a, double b);
Tensor operator!=(Tensor a, double b);
Tensor operator<(Tensor a, double b);
Tensor operator<=(Tensor a, double b);
Tensor operator>(Tensor a, double b);
Tensor operator>=(Tensor a, double b);

// C++ reverses the operands of `1.0 == x` by itself only if the result is bool.
Tensor operator==(double a, Tensor b);
Tensor operator!=(double a, Tensor b);
Tensor operator<(double a, Tensor b);
Tensor operator<=(double a, Tensor b);
Tensor operator>(double a, Tensor b);
Tensor operator>=(double a, Tensor b);

/// True where both a and b are nonzero.
Tensor logical_and(Tensor a, Tensor b);
/// True where a or b is nonzero.
Tensor logical_or(Tensor a, Tensor b);
/// True where x is 0.
Tensor logical_not(Tensor x);

/// True where x is neither infinite nor NaN; always true for integers.
Tensor isfinite(Tensor x);
/// True where x is NaN.
Tensor isnan(Tensor x);

}  // namespace headroom
