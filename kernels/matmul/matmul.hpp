#pragma once
// Matrix products on strided, batched views, with fused operations: accumulation, bias, activation, and those that
// gradients need. Not for attention (kernels/attention stores no score matrix) or convolution.
//
//     Matmul linear{.a = x, .b = transposed(weight), .c = y, .bias = bias};  // y = x W^T + bias
//     const MatmulPlan plan(stream, linear);
//     std::byte* scratch = allocate(plan.scratch());                         // before the launch
//     launch(stream, [&](auto& s) { plan.run(s, scratch); });
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <headroom/kernels/matmul/internal/gemm.hpp>
#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

class LibraryMatmul;

/// c[..., m, n] = activation(a[..., m, k] x b[..., k, n] + beta * c + bias[n]).
///
/// Batch axes of `a` and `b` broadcast to those of `c` (missing, of size 1, or of stride 0). Any strides: a transposed
/// operand needs no copy by the caller. `bias` of rank 0 means none; its elements may be strided. With beta = 0, c is
/// never read; k = 0 gives beta * c + bias. Dtypes: a and b share one of f32, bf16, f16, f64; c has that dtype or, for
/// halves, f32; the bias has a's or c's dtype. Products of halves are exact and accumulated in f32. c must not overlap
/// a, b or bias.
///
/// For training, there are the operations below. Each is fused if the library supports it; otherwise it runs as a
/// separate pass, which takes no memory:
///
///     // h = gelu(inner), inner = x W1^T + b1                       forward; h and inner [rows, hidden]
///     {.a = x, .b = transposed(w1), .c = h, .bias = b1, .activation = gelu, .inner = inner}
///     // dinner = (dy W2) gelu'(inner), h = gelu(inner)             backward; h may be inner's own memory
///     {.a = dy, .b = w2, .c = dinner, .activation = gelu, .inner = inner, .derivative = true, .outer = h}
///     // dW2 = dW2 + dy^T h, db2 = db2 + the columns' sums of dy
///     {.a = transposed(dy), .b = h, .c = dw2, .beta = 1, .sums = db2, .sums_beta = 1}
struct Matmul {
    View a;
    View b;
    View c;
    View bias{};
    float beta = 0;
    Activation activation = Activation::none;  ///< or relu, gelu_tanh, gelu_erf

    /// Rank 0: none. Otherwise the activation's argument, of c's shape and dtype, any strides; beta must be 0. It is
    /// written, and c is the activation of the rounded or the unrounded argument; with `derivative` it is read. Must
    /// not overlap c.
    View inner{};
    /// c = (a x b) * activation'(inner): the gradient of an activation's argument. Requires `inner` and no bias. ReLU's
    /// derivative at 0 is 0.
    bool derivative = false;
    /// Rank 0: none. Otherwise requires `derivative`: also writes outer = activation(inner), of c's shape and dtype,
    /// for a caller that kept only `inner`. May be inner itself (same memory and strides), but must not overlap c.
    View outer{};
    /// Rank 0: none. Otherwise [m], possibly strided, of a's dtype or f32; a and c must be matrices, without batch
    /// axes: sums = sums_beta * sums + a's rows summed over k. With a = dy^T this is the bias's gradient, computed
    /// along with the weight's. With sums_beta = 0, sums are never read; k = 0 gives sums_beta * sums. Must not overlap
    /// anything else.
    View sums{};
    float sums_beta = 0;

    bool has_bias() const { return bias.rank() == 1; }
    bool has_inner() const { return inner.rank() != 0; }
    bool has_outer() const { return outer.rank() != 0; }
    bool has_sums() const { return sums.rank() == 1; }
};

/// One call of matmul. The constructor checks it and assigns its parts to kernels.
class MatmulPlan {
  public:
    /// Data pointers may be null if it is not run. Errors: DtypeError for dtypes not listed above, ShapeError for
    /// shapes that don't fit together.
    MatmulPlan(const Stream& stream, const Matmul& matmul);

    /// Bytes that `run` needs: the larger of the needs for beta = 0 and beta = 1. Depends on shapes, strides, dtypes
    /// and threads, not on data. oneDNN may allocate more for itself during the call (see `MatmulCache`). On CUDA: 32
    /// MiB for each product that cuBLASLt takes, on every device, and the scratch of `sums`; if algorithms are tried
    /// (`ComputeOptions::tune`) and beta is not 0, also the bytes of c, within the scratch budget.
    std::size_t scratch() const { return scratch_; }

    /// Runs on the stream that it was planned for. `scratch`: 64-byte aligned; may be null for 0 bytes. The bits of the
    /// result do not depend on earlier calls; with oneDNN they may depend on the number of threads.
    void run(CpuStream& stream, std::byte* scratch) const;
    /// cuBLASLt runs the product if each matrix has an axis of stride 1; otherwise the project's own, slower kernels
    /// do. `scratch`: 256-byte aligned. A separate kernel does what cuBLASLt's epilogues can't; a half c is then
    /// rounded twice. For halves, cuBLASLt's own GELU may be off by 2^-11 of its argument x, its derivative by (1 +
    /// |x|^3) / 2^11, and its ReLU may turn NaN into 0. cuBLASLt computes `inner` for gelu_tanh and halves, if its
    /// strides are c's, and width and strides are multiples of 8; it computes `sums` for halves, if they are packed, of
    /// c's dtype, and without other epilogues. The bits repeat from run to run, see `ComputeOptions`. cuBLASLt loads
    /// its kernels on first use, into memory that is not counted. Errors: DeviceError if cuBLASLt is not installed or
    /// fails.
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    void plan_cpu(const Stream& stream);
    void plan_cuda(const Stream& stream);
    bool run_whole(CudaStream& stream, std::byte* scratch) const;
    bool try_apart(CudaStream& stream, std::byte* scratch) const;
    View sums_in(std::byte* scratch) const;
    void run_product(CudaStream& stream, std::byte* scratch) const;
    GemmCall call_of_gemm(const Gemm& gemm, std::byte* scratch) const;

    Matmul matmul_;
    Problem product_;
    std::optional<SumPlan> sums_;
    bool few_rows_ = false;             ///< on the CPU
    LibraryMatmul* library_ = nullptr;  ///< oneDNN's; on the CPU, null for the project's own kernels
    std::optional<Gemm> gemm_;          ///< cuBLASLt's; on a GPU, none for the project's own kernels
    std::size_t trial_ = 0;             ///< offset of `GemmCall::trial` in the scratch; 0: none
    std::size_t scratch_ = 0;
};

/// For reports, one line without quotes: "cuBLASLt 13.1.0", followed by the products that the project's own kernels
/// computed so far, wholly or in part, because cuBLASLt refused, was slower or does not apply: "; own kernels for 1 of
/// the products: [64 x 50257 x 768] bf16 (all of it)". Planned extra passes, such as for an f32 bias, are not counted.
/// Or the reason why cuBLASLt is missing.
std::string matmul_library(CudaStream& stream);

/// The view with its last two axes swapped.
inline View transposed(View x) {
    const int last = x.rank() - 1;
    std::swap(x.shape[last], x.shape[last - 1]);
    std::swap(x.strides[last], x.strides[last - 1]);
    return x;
}

}  // namespace headroom::kernels
