#pragma once
// Pointwise kernels: a function of one or two arguments over arrays of any strides and dtypes, and its gradient. The
// functions are structs (see `functions.hpp`). Built-in ones are compiled into the library; for others include
// `pointwise_loops.hpp` where they are used (for a GPU `pointwise_loops.cuh`, in a .cu source).
//
//     kernels::map(stream, GeluTanh{}, x, y);
//     kernels::map_backward(stream, GeluTanh{}, x, dy, 0.0f, dx);
//     kernels::map(stream, Add{}, x, bias, y);                        // bias of shape [width] is broadcast
//     kernels::map_backward_b(stream, Mul{}, a, b, dy, 1.0f, db);     // db += dy * a
//
// Everything is computed in f64 if any array is f64, else in f32 if any is floating, else (for functions that support
// integers) in 64-bit integers; values are converted at load and store by the rules of `convert.hpp`. Inputs have the
// output's shape or broadcast to it. The output may be an input's own memory, with the same strides and dtype.
// Gradients have the output's shape; `sum_to` sums the gradient of a broadcast input. beta = 0 overwrites without
// reading; otherwise d = beta d + gradient.
#include <headroom/kernels/pointwise/activations.hpp>
#include <headroom/kernels/pointwise/binary_functions.hpp>
#include <headroom/kernels/pointwise/functions.hpp>
#include <headroom/kernels/pointwise/unary_functions.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y = f(x)
template <UnaryFunction F>
void map(CpuStream& stream, const F& f, const View& x, const View& y);
template <UnaryFunction F>
void map(CudaStream& stream, const F& f, const View& x, const View& y);

/// y = f(a, b)
template <BinaryFunction F>
void map(CpuStream& stream, const F& f, const View& a, const View& b, const View& y);
template <BinaryFunction F>
void map(CudaStream& stream, const F& f, const View& a, const View& b, const View& y);

/// dx = beta dx + dy f'(x). `saved` is the array that `F::saves` names: the input, the output, or (nothing) any view,
/// which is not read.
template <DifferentiableUnary F>
void map_backward(CpuStream& stream, const F& f, const View& saved, const View& dy, float beta, const View& dx);
template <DifferentiableUnary F>
void map_backward(CudaStream& stream, const F& f, const View& saved, const View& dy, float beta, const View& dx);

/// da = beta da + dy df/da(a, b); a and b are not read if `F::saves` is nothing.
template <DifferentiableBinary F>
void map_backward_a(CpuStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& da);
template <DifferentiableBinary F>
void map_backward_a(CudaStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& da);

/// db = beta db + dy df/db(a, b); a and b are not read if `F::saves` is nothing.
template <DifferentiableBinary F>
void map_backward_b(CpuStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& db);
template <DifferentiableBinary F>
void map_backward_b(CudaStream& stream, const F& f, const View& a, const View& b, const View& dy, float beta,
                    const View& db);

// On the CPU a constant exponent runs as a broadcast array, which compilers vectorise.
template <>
void map(CpuStream& stream, const PowScalar& f, const View& x, const View& y);
template <>
void map_backward(CpuStream& stream, const PowScalar& f, const View& saved, const View& dy, float beta, const View& dx);

/// y = condition ? a : b, element by element; the condition has any dtype and is true where nonzero.
void where(CpuStream& stream, const View& condition, const View& a, const View& b, const View& y);
void where(CudaStream& stream, const View& condition, const View& a, const View& b, const View& y);

/// dx = beta dx + (condition == chosen ? dy : 0): the gradient of a for chosen = true, of b for chosen = false.
void where_backward(CpuStream& stream, const View& condition, bool chosen, const View& dy, float beta, const View& dx);
void where_backward(CudaStream& stream, const View& condition, bool chosen, const View& dy, float beta, const View& dx);

}  // namespace headroom::kernels
