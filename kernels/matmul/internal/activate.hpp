#pragma once
// Activations as passes over whole arrays, for products that they could not be fused with.
//
//     activate(stream, Activation::gelu_tanh, inner, c);
//     activate_backward(stream, Activation::gelu_tanh, inner, c, outer);
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// y = activation(x), of one shape; may be in place.
void activate(CpuStream& stream, Activation activation, const View& x, const View& y);
void activate(CudaStream& stream, Activation activation, const View& x, const View& y);

/// dy *= activation'(x) and, in the same pass, y = activation(x), unless y has rank 0. All of one shape and dtype; y
/// may be x itself.
void activate_backward(CpuStream& stream, Activation activation, const View& x, const View& dy, const View& y);
void activate_backward(CudaStream& stream, Activation activation, const View& x, const View& dy, const View& y);

/// c = activation(c + bias), with the bias along c's last axis. A half c is rounded a second time.
void add_bias(CudaStream& stream, Activation activation, const View& bias, const View& c);

/// The part of a matmul with `inner` that follows its product.
template <class Stream>
void finish_activation(Stream& stream, const Matmul& matmul) {
    if (matmul.derivative) return activate_backward(stream, matmul.activation, matmul.inner, matmul.c, matmul.outer);
    activate(stream, matmul.activation, matmul.inner, matmul.c);
}

}  // namespace headroom::kernels
