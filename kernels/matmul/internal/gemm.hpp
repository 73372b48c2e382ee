#pragma once
// A matmul in the terms of BLAS libraries: column-major matrices with leading dimensions, one strided batch. These
// functions decide whether cuBLASLt takes a product, and with which epilogue. Plain C++, so that a dry run decides as a
// GPU does, and tests need no GPU.
//
//     const std::optional<Gemm> gemm = plan_gemm(reduce(matmul), matmul);
//     if (gemm && run_gemm(stream, *gemm, call)) ...   // kernels do the rest
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <headroom/kernels/matmul/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// D = activation(op(A) op(B) + beta D + bias), or D = op(A) op(B) activation'(inner). Matrices are stored by columns,
/// `ld` elements apart; op(A) is rows x depth, op(B) depth x columns; the bias has one element per row of D. Sizes and
/// strides are in elements.
struct Gemm {
    std::int64_t rows = 0, columns = 0, depth = 0;
    bool swapped = false;  ///< D is c transposed: A is the matmul's b, and B its a
    bool transpose_a = false, transpose_b = false;
    std::int64_t lda = 0, ldb = 0, ldd = 0;
    std::int64_t batches = 1, a_batch = 0, b_batch = 0, d_batch = 0;
    Dtype operand = Dtype::f32, result = Dtype::f32;

    // The library does these; a kernel does the rest afterwards.
    bool bias = false;
    Activation activation = Activation::none;
    bool bias_remains = false;
    Activation activation_remains = Activation::none;
    bool inner = false;       ///< the activation's argument is written, in D's layout
    bool derivative = false;  ///< the argument is read, and its derivative multiplies D
    bool sums = false;        ///< sums of the matmul's a, computed with the product: of B if swapped, else of A
    bool fused() const { return bias || activation != Activation::none; }
    bool has_inner() const { return inner || derivative; }
    /// True if the library does everything in one call, except `outer`.
    bool whole() const { return has_inner() || sums; }
    /// The product alone.
    Gemm product() const;
    /// The same without an epilogue, which a kernel then computes.
    Gemm without_epilogue() const;
    bool remains() const { return bias_remains || activation_remains != Activation::none; }

    /// Batch axes that a single stride can't cover: the number of calls is the product of their sizes.
    struct Loop {
        std::int64_t size = 1, a = 0, b = 0, d = 0;
    };
    std::array<Loop, Problem::kMaxBatchRank> loops{};
    std::int64_t calls() const;
    /// Offsets of call `index`, in elements.
    Loop offsets(std::int64_t index) const;

    /// The stored sizes of A and B.
    std::int64_t a_rows() const { return transpose_a ? depth : rows; }
    std::int64_t a_columns() const { return transpose_a ? rows : depth; }
    std::int64_t b_rows() const { return transpose_b ? columns : depth; }
    std::int64_t b_columns() const { return transpose_b ? depth : columns; }
    /// Bytes from the first to the end of the last element of D, for one call.
    std::size_t result_bytes() const;
};

/// The product of a matmul and, if cuBLASLt's epilogues can do all of it in one call, its `inner` or `sums`. Empty if
/// cuBLASLt can't compute it: an operand or c has no axis of stride 1, rows overlap (broadcast by strides of 0), k = 0,
/// or an axis is above 2^31 - 1. Depends on shapes, strides and dtypes, not on addresses.
std::optional<Gemm> plan_gemm(const Problem& product, const Matmul& matmul);

/// Scratch of every product that has a plan: cuBLASLt's workspace. NVIDIA recommends 32 MiB from compute capability 9.0
/// on and 4 MiB before that (documentation of cublasSetWorkspace). One number for all devices and products, so that a
/// dry run needs to know neither the device nor the algorithm that will be chosen.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// Device addresses, and the other arguments that change from call to call.
struct GemmCall {
    const std::byte *a = nullptr, *b = nullptr;
    const std::byte* bias = nullptr;  ///< or the destination of sums
    std::byte* d = nullptr;
    const std::byte* inner = nullptr;  ///< written, or read
    float beta = 0;
    std::byte* workspace = nullptr;  ///< kGemmWorkspace bytes, aligned to 256
    std::byte* trial = nullptr;      ///< `Gemm::result_bytes`, aligned to 256: for trying algorithms with a beta
};

/// A call for the product alone.
GemmCall call_of(const Problem& problem, const Gemm& gemm, std::byte* workspace);

/// The alternative to a call with an epilogue: the product alone and a separate kernel. May run any number of times,
/// because it adds to nothing; returns false if the library refuses the product, too.
using WithoutEpilogue = std::function<bool()>;

/// Returns false, and does nothing, if the library refuses, or if tuning finds `apart` (if given) to be faster. The
/// library is cuBLASLt; in the emulator, the CPU's kernels take its place.
bool run_gemm(CudaStream& stream, const Gemm& gemm, const GemmCall& call, const WithoutEpilogue& apart = {});
/// The library's name and version, or the reason why there is none.
std::string gemm_library(CudaStream& stream);

/// Writes the algorithm chosen for each product so far: a text file for this GPU model and cuBLASLt version. Errors:
/// FileError.
void save_matmul_choices(CudaStream& stream, const std::string& path);
/// Loads a file of `save_matmul_choices`; products already computed keep their algorithms. Returns false, and loads
/// nothing, if the file is for another GPU or version, so that algorithms are chosen anew. Errors: FileError if it
/// can't be read or is damaged.
bool load_matmul_choices(CudaStream& stream, const std::string& path);

}  // namespace headroom::kernels
