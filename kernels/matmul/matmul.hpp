#pragma once
// Matrix products on strided, batched views, with what can be fused behind them: scaling, accumulation, bias,
// activation. Not for attention (kernels/attention stores no score matrix) nor for convolution.
//
//     Matmul linear{.a = x, .b = transposed(weight), .c = y, .bias = bias};  // y = x W^T + bias
//     std::size_t bytes = matmul_scratch(stream, linear);                    // before the launch
//     launch(stream, [&](auto& s) { matmul(s, linear, scratch); });
#include <cstddef>
#include <cstdint>
#include <utility>

#include <headroom/kernels/view.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom::kernels {

enum class Activation : std::uint8_t { none, relu, gelu_tanh, gelu_erf };

/// c[..., m, n] = activation(alpha * a[..., m, k] x b[..., k, n] + beta * c + bias[n]).
///
/// Batch axes of `a` and `b` broadcast to those of `c` (missing, of size 1, or of stride 0). Any strides: a transposed
/// operand costs no copy that the caller sees. `bias` of rank 0 means none; its elements may be strided. With beta = 0,
/// c is never read; k = 0 gives beta * c + bias. dtypes: a and b share one of f32, bf16, f16, f64; c has that dtype or,
/// for halves, f32; the bias has a's or c's dtype. Halves are multiplied exactly and accumulated in f32. c must not
/// overlap a, b or bias.
struct Matmul {
    View a;
    View b;
    View c;
    View bias{};
    double alpha = 1;
    float beta = 0;
    Activation activation = Activation::none;

    bool has_bias() const { return bias.rank() == 1; }
};

/// Bytes of scratch that `matmul` needs; a function of shapes, strides, dtypes and threads, not of data, and the larger
/// of what beta = 0 and beta = 1 need. Data pointers may be null. oneDNN may allocate more for itself during the call
/// (see `MatmulCache`). Errors: DtypeError for dtypes not listed above.
std::size_t matmul_scratch(Stream& stream, const Matmul& matmul);

/// `scratch`: 64-byte aligned, as many bytes as `matmul_scratch` says; may be null for 0. The bits of the result do not
/// depend on earlier calls; they may depend on the number of threads where oneDNN computes.
void matmul(CpuStream& stream, const Matmul& matmul, std::byte* scratch);

/// The view with its last two axes exchanged.
inline View transposed(View x) {
    const int last = x.rank() - 1;
    std::swap(x.shape[last], x.shape[last - 1]);
    std::swap(x.strides[last], x.strides[last - 1]);
    return x;
}

}  // namespace headroom::kernels
