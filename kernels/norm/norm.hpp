#pragma once
// The sum of squares of a flat range, for gradient norms, and whether all of it is finite. Not for reductions over
// axes: see reduce/.
//
//     sum_of_squares(stream, gradients, result, 0);      // result: one f64
//     if (!std::isfinite(value)) ...                     // some gradient was infinite or NaN: no second pass
//     bool fine = all_finite(stream, activations);       // where only that matters
//
// Squares are formed and summed in f64, in chunks that depend on the size alone. Squares of f32, f16 and bf16 can't
// overflow there: the sum is finite if and only if every element is. (For f64 that holds up to 1e150.)
#include <headroom/kernels/view.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom::kernels {

/// result = beta * result + sum of x^2. x: contiguous, floating. result: one element, f64 (or f32, rounded once).
void sum_of_squares(CpuStream& stream, const View& x, const View& result, float beta);

/// True if no element is infinite or NaN; true for no elements. x: floating, any strides.
bool all_finite(CpuStream& stream, const View& x);

}  // namespace headroom::kernels
