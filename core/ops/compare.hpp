#pragma once
// Comparisons of two tensors, which broadcast, or of a tensor and a number; and logic on truth values. Results are
// bool, without a gradient. For choosing by them see where.hpp.
//
//     Tensor mask = x < 0.5;
//     Tensor both = logical_and(mask, ids != padding);
//     Tensor hits = sum(argmax(logits) == targets);        // i64
//
// Different dtypes are compared in the wider one. Comparisons with NaN are false, `ne` is true. Errors: ShapeError.
#include <headroom/core/apply.hpp>

namespace headroom {

namespace ops {

/// A function of two arguments with a truth value.
template <class F>
struct Comparison {
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full};
    using Attrs = F;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& a, const Array& b);
    static std::vector<Sample<Attrs>> samples();
};

/// A function of one argument with a truth value.
template <class F>
struct Predicate {
    static constexpr OpInfo info{.name = F::name, .precision = Precision::full};
    using Attrs = F;
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& f, const Array& x);
    static std::vector<Sample<Attrs>> samples();
};

/// All of both, for `all_ops`.
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

/// a == b for a number b, which is rounded to the dtype of a, if that is floating; likewise the next five.
Tensor eq(Tensor a, double b);
Tensor ne(Tensor a, double b);
Tensor lt(Tensor a, double b);
Tensor le(Tensor a, double b);
Tensor gt(Tensor a, double b);
Tensor ge(Tensor a, double b);

// The same, written with operators. The results are tensors, element by element: no condition of an `if`.
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

// C++ turns `1.0 == x` around only where the result is bool.
Tensor operator==(double a, Tensor b);
Tensor operator!=(double a, Tensor b);
Tensor operator<(double a, Tensor b);
Tensor operator<=(double a, Tensor b);
Tensor operator>(double a, Tensor b);
Tensor operator>=(double a, Tensor b);

/// True where a and b are unlike 0.
Tensor logical_and(Tensor a, Tensor b);
/// True where a or b is unlike 0.
Tensor logical_or(Tensor a, Tensor b);
/// True where x is 0.
Tensor logical_not(Tensor x);

/// Neither infinite nor NaN; true for all integers.
Tensor isfinite(Tensor x);
/// True where x is NaN.
Tensor isnan(Tensor x);

}  // namespace headroom
