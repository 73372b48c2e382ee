#pragma once
// Matrix products on strided, batched views, with what can be fused behind them: scaling, accumulation, bias,
// activation. Not for attention (kernels/attention stores no score matrix) nor for convolution.
//
//     Matmul linear{.a = x, .b = transposed(weight), .c = y, .bias = bias};  // y = x W^T + bias
//     std::size_t bytes = matmul_scratch(stream, linear);                    // before the launch
//     launch(stream, [&](auto& s) { matmul(s, linear, scratch); });
#include <cstddef>
#include <cstdint>
#include <string>
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
/// (see `MatmulCache`). For CUDA: 32 MiB for each product that cuBLASLt takes, else none, whatever the device.
/// Errors: DtypeError for dtypes not listed above.
std::size_t matmul_scratch(Stream& stream, const Matmul& matmul);

/// `scratch`: 64-byte aligned, as many bytes as `matmul_scratch` says; may be null for 0. The bits of the result do not
/// depend on earlier calls; they may depend on the number of threads where oneDNN computes.
void matmul(CpuStream& stream, const Matmul& matmul, std::byte* scratch);
/// By cuBLASLt where each matrix has an axis of stride 1, else by kernels of our own, which are slower. `scratch`:
/// 256-byte aligned. What cuBLASLt's epilogues lack is done by a kernel after it; a half c is then rounded twice.
/// Behind halves, cuBLASLt's own GELU may be off by 2^-11 of its argument, and its ReLU may turn NaN into 0. The bits
/// repeat from run to run, see `CudaMatmulSettings`. cuBLASLt loads its kernels when they are first used: memory that
/// is not counted. Errors: DeviceError if cuBLASLt is not installed, or fails.
void matmul(CudaStream& stream, const Matmul& matmul, std::byte* scratch);

/// How products are computed on a GPU; set before the first one: `stream.state->get<CudaMatmulSettings>().tf32 = true`.
struct CudaMatmulSettings {
    /// f32 operands are rounded to TF32 (10 bits of fraction) and multiplied by tensor cores: several times as fast.
    bool tf32 = false;
    /// A product's first call tries several algorithms, each once or twice, waits for them, and keeps the fastest; it
    /// borrows memory as large as c where beta is not 0. Which one wins may differ from run to run, and with it the
    /// last bits of the result, unless `load_matmul_choices` brings the choices of an earlier run. Without: what
    /// cuBLASLt itself thinks best, the same in every run with the same device and version of cuBLASLt.
    bool tune = false;
    /// Never cuBLASLt, which then need not be installed. Slow.
    bool own_kernels = false;
};

/// Writes which algorithm was chosen for each product so far: a text file for this model of GPU and version of
/// cuBLASLt. Errors: FileError.
void save_matmul_choices(CudaStream& stream, const std::string& path);
/// Takes what `save_matmul_choices` wrote; products already computed keep their algorithms. False, and nothing is
/// taken, if the file is for another GPU or version: then algorithms are chosen anew. Errors: FileError if it can't be
/// read or is damaged.
bool load_matmul_choices(CudaStream& stream, const std::string& path);

/// The view with its last two axes exchanged.
inline View transposed(View x) {
    const int last = x.rank() - 1;
    std::swap(x.shape[last], x.shape[last - 1]);
    std::swap(x.strides[last], x.strides[last - 1]);
    return x;
}

}  // namespace headroom::kernels
