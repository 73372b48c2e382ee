#pragma once
// The ways in which attention is computed on a GPU; attention.cu and attention_gradient.cu choose among them. Internal
// to kernels/attention.
//
//     if (fits_tensor_cores(g, q.dtype)) return attention_on_tensor_cores(stream, attention);
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/geometry.hpp>

namespace headroom::kernels {

/// Halves, with heads whose rows fit into shared memory.
inline bool fits_tensor_cores(const Geometry& g, Dtype dtype) { return is_half(dtype) && g.width <= 128; }

void attention_on_tensor_cores(CudaStream& stream, const Attention& attention);
/// Any dtype and width.
void attention_plain(CudaStream& stream, const Attention& attention);

/// `delta`: the sum of dy * o for each query of each head [B, H, T], in the type computed in.
void attention_gradient_on_tensor_cores(CudaStream& stream, const AttentionGradient& gradient, float* delta);
/// Any dtype and width.
void attention_gradient_plain(CudaStream& stream, const AttentionGradient& gradient, std::byte* delta);

}  // namespace headroom::kernels
