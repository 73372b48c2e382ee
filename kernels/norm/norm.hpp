#pragma once
// The sum of squares of a flat range, for gradient norms, and whether all of it is finite. Not for reductions over
// axes: see reduce/.
//
//     sum_of_squares(stream, gradients, result, 0, scratch);    // result: one f64
//     if (!std::isfinite(value)) ...                            // some gradient was infinite or NaN: no second pass
//     bool fine = all_finite(stream, activations, scratch);     // if only that matters
//
// Squares are formed and summed in f64, in chunks that depend on the size alone. Squares of f32, f16 and bf16 can't
// overflow there: the sum is finite if and only if every element is. (For f64 that holds up to 1e150.)
#include <cstddef>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// Bytes of scratch that `sum_of_squares` needs: 8 for each part on a GPU, none on the CPU.
std::size_t sum_of_squares_scratch(Stream& stream, const View& x);
/// result = beta * result + sum of x^2. x: contiguous, floating. result: one f64.
void sum_of_squares(CpuStream& stream, const View& x, const View& result, float beta, std::byte* scratch = nullptr);
void sum_of_squares(CudaStream& stream, const View& x, const View& result, float beta, std::byte* scratch);

/// Bytes of scratch that `all_finite` needs; none on the CPU.
std::size_t all_finite_scratch(Stream& stream);
/// True if no element is infinite or NaN; true for no elements. x: floating, any strides. Waits for a GPU.
bool all_finite(CpuStream& stream, const View& x, std::byte* scratch = nullptr);
bool all_finite(CudaStream& stream, const View& x, std::byte* scratch);

}  // namespace headroom::kernels
