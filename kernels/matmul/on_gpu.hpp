#pragma once
// How a matmul on a GPU is put together from the library's calls and the project's own kernels: the same code for
// cuBLASLt and for its stand-in in the emulator. Internal to kernels/matmul.
//
//     matmul_by_parts(stream, matmul, scratch, [&](const Gemm& gemm, const Matmul& part) { return true; });
#include <optional>

#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/parts.hpp>
#include <headroom/kernels/matmul/tiled.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>

namespace headroom::kernels {

/// Without `inner` and `sums`.
template <class Library>
void multiply(CudaStream& stream, const Matmul& product, bool own_kernels, Library& library) {
    const Problem problem = reduce(product);
    if (problem.m == 0 || problem.n == 0 || problem.batches() == 0) return;
    std::optional<Gemm> gemm = own_kernels ? std::nullopt : plan_gemm(problem, product);
    bool done = gemm && library(*gemm, product);
    if (gemm && !done && gemm->fused()) {  // it may be the epilogue that the library refuses
        gemm = gemm->without_epilogue();
        done = library(*gemm, product);
    }
    if (!done) return tiled_matmul(stream, problem, product);
    if (gemm->bias_remains) return add_bias(stream, gemm->activation_remains, product.bias, product.c);
    if (gemm->remains()) activate(stream, gemm->activation_remains, product.c, product.c);
}

/// True if one call of the library did everything but `outer`.
template <class Library>
bool multiply_fused(CudaStream& stream, const Matmul& matmul, std::byte* scratch, Library& library) {
    const std::optional<Gemm> gemm = plan_fused(reduce(matmul), matmul);
    if (!gemm) return false;
    Matmul part = matmul;
    const bool adds = gemm->sums && matmul.sums_beta != 0;  // cuBLASLt only overwrites
    if (adds) {
        part.sums = contiguous_view(scratch + kGemmWorkspace, matmul.sums.dtype, matmul.sums.shape);
        part.sums_beta = 0;
    }
    if (!library(*gemm, part)) return false;
    if (adds) map_backward(stream, Affine{}, part.sums, part.sums, matmul.sums_beta, matmul.sums);
    if (matmul.has_outer()) activate(stream, matmul.activation, matmul.inner, matmul.outer);
    return true;
}

/// `library(gemm, part)` does what the plan says of a part, which has all of its views, and is false if it refuses.
template <class Library>
void matmul_by_parts(CudaStream& stream, const Matmul& matmul, std::byte* scratch, Library&& library) {
    const bool own_kernels = stream.compute.own_kernels;
    const bool more = matmul.has_inner() || matmul.has_sums();
    if (more && !own_kernels && multiply_fused(stream, matmul, scratch, library)) return;
    if (matmul.has_sums()) sum_rows(stream, matmul, scratch);
    multiply(stream, product_part(matmul), own_kernels, library);
    if (matmul.has_inner()) finish_activation(stream, matmul);
}

}  // namespace headroom::kernels
