#pragma once
// The project's own convolution on the CPU: any strides, any floating dtype, any geometry. It computes what oneDNN does
// not support (f64, f16, images that are not channels-last), what is too small for a library call, the gradient of
// dense f32 weights, and long sums in f32; see library.hpp.
//
//     std::size_t bytes = blocked_scratch(stream.threads, problem);
//     blocked_convolution(stream, problem, scratch);
#include <cstddef>

#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// Bytes for all threads.
std::size_t blocked_scratch(int threads, const ConvolutionProblem& problem);

/// The bits do not depend on the number of threads: each element is summed in an order fixed by the shape.
void blocked_convolution(CpuStream& stream, const ConvolutionProblem& problem, std::byte* scratch);

/// The same for a weight's gradient, in weight.cpp.
std::size_t blocked_weight_scratch(const ConvolutionProblem& problem);
void blocked_weight(CpuStream& stream, const ConvolutionProblem& problem, std::byte* scratch);

/// Turns `channels` values of one pixel into y: activation(values + bias + beta y). T is float or double.
template <class T>
void finish_pixel(const ConvolutionProblem& problem, std::int64_t first_channel, std::int64_t channels, T* values,
                  std::byte* y);

extern template void finish_pixel(const ConvolutionProblem&, std::int64_t, std::int64_t, float*, std::byte*);
extern template void finish_pixel(const ConvolutionProblem&, std::int64_t, std::int64_t, double*, std::byte*);

}  // namespace headroom::kernels
