#pragma once
// The ways to compute attention on a GPU; attention.cu and attention_gradient.cu choose among them.
//
//     if (library && attention_by_library(stream, *library, attention, scratch)) return;
//     if (fits_tensor_cores(g, q.dtype)) return attention_on_tensor_cores(stream, attention);
#include <string>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/geometry.hpp>

namespace headroom::kernels {

/// Halves, with heads whose rows fit in shared memory.
inline bool fits_tensor_cores(const Geometry& g, Dtype dtype) { return is_half(dtype) && g.width <= 128; }

/// Computes with cuDNN; `whole` describes the call. Returns false, and does nothing, if cuDNN is missing, refuses, or
/// is not wanted.
bool attention_by_library(CudaStream& stream, const Sdpa& whole, const Attention& attention, std::byte* scratch);
bool attention_gradient_by_library(CudaStream& stream, const Sdpa& whole, const AttentionGradient& gradient,
                                   std::byte* scratch);

/// For `attention_library`: records that own kernels compute a call that cuDNN would take without masks or dropout, or
/// on a newer GPU.
void attention_not_asked(CudaStream& stream);
/// The reason why cuDNN has no attention for the stream's GPU, which `cudnn_absence` then reports; empty if it has.
std::string refusal_of_old_gpu(CudaStream& stream);

void attention_on_tensor_cores(CudaStream& stream, const Attention& attention);
/// Any dtype and width.
void attention_plain(CudaStream& stream, const Attention& attention);

/// `delta`: the sum of dy * o for each query and head [B, H, T], in the compute type.
void attention_gradient_on_tensor_cores(CudaStream& stream, const AttentionGradient& gradient, float* delta);
/// Any dtype and width.
void attention_gradient_plain(CudaStream& stream, const AttentionGradient& gradient, std::byte* delta);

}  // namespace headroom::kernels
