#pragma once
// The ways in which attention is computed on a GPU; attention.cu and attention_gradient.cu choose among them.
//
//     if (library && attention_by_library(stream, *library, attention, scratch)) return;
//     if (fits_tensor_cores(g, q.dtype)) return attention_on_tensor_cores(stream, attention);
#include <string>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/geometry.hpp>

namespace headroom::kernels {

/// Halves, with heads whose rows fit into shared memory.
inline bool fits_tensor_cores(const Geometry& g, Dtype dtype) { return is_half(dtype) && g.width <= 128; }

/// By cuDNN, for which `whole` is the call. Returns false, and does nothing, if cuDNN is missing, refuses, or is not
/// wanted.
bool attention_by_library(CudaStream& stream, const Sdpa& whole, const Attention& attention, std::byte* scratch);
bool attention_gradient_by_library(CudaStream& stream, const Sdpa& whole, const AttentionGradient& gradient,
                                   std::byte* scratch);

/// For `attention_library`: own kernels compute what cuDNN would take without its masks or dropout, or on a later GPU.
void attention_not_asked(CudaStream& stream);
/// Why cuDNN has no attention for the stream's GPU, which `cudnn_absence` says from then on; empty if it has.
std::string refusal_of_old_gpu(CudaStream& stream);

void attention_on_tensor_cores(CudaStream& stream, const Attention& attention);
/// Any dtype and width.
void attention_plain(CudaStream& stream, const Attention& attention);

/// `delta`: the sum of dy * o for each query of each head [B, H, T], in the type computed in.
void attention_gradient_on_tensor_cores(CudaStream& stream, const AttentionGradient& gradient, float* delta);
/// Any dtype and width.
void attention_gradient_plain(CudaStream& stream, const AttentionGradient& gradient, std::byte* delta);

}  // namespace headroom::kernels
