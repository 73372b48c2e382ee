#include <headroom/kernels/matmul/matmul.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/activate.hpp>
#include <headroom/kernels/matmul/blocked.hpp>
#include <headroom/kernels/matmul/few_rows.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/library.hpp>
#include <headroom/kernels/matmul/parts.hpp>
#include <headroom/kernels/matmul/problem.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// Multiply-adds below which oneDNN's call costs more than it gains.
constexpr std::int64_t kLibraryThreshold = 1 << 16;

/// That a view beside c is like it.
void check_beside(const char* what, const View& view, const View& c) {
    if (view.dtype != c.dtype)
        throw DtypeError(fmt::format("matmul: {} must be {} as c, got {}", what, name(c.dtype), name(view.dtype)));
    if (view.shape != c.shape)
        throw ShapeError(fmt::format("matmul: {} must have c's shape {}, got {}", what, c.shape.to_string(),
                                     view.shape.to_string()));
}

void check_activation(const Matmul& matmul) {
    if (matmul.has_inner()) check_beside("inner", matmul.inner, matmul.c);
    if (matmul.has_outer()) check_beside("outer", matmul.outer, matmul.c);
    if (matmul.has_inner() && matmul.beta != 0) throw ShapeError("matmul: with inner, beta must be 0");
    if (matmul.derivative && (!matmul.has_inner() || matmul.has_bias()))
        throw ShapeError("matmul: a derivative needs inner, and takes no bias");
    if (matmul.has_outer() && !matmul.derivative) throw ShapeError("matmul: outer is for derivatives; use c");
}

void check_sums(const Matmul& matmul) {
    const View &a = matmul.a, &sums = matmul.sums;
    if (sums.dtype != a.dtype && sums.dtype != Dtype::f32)
        throw DtypeError(fmt::format("matmul: sums must be {} or f32, got {}", name(a.dtype), name(sums.dtype)));
    if (a.rank() != 2 || matmul.c.rank() != 2 || sums.size(0) != a.size(0)) {
        throw ShapeError(fmt::format("matmul: sums must be [m] beside matrices, got {} for a {} and c {}",
                                     sums.shape.to_string(), a.shape.to_string(), matmul.c.shape.to_string()));
    }
}

void check(const Matmul& matmul) {
    const Dtype a = matmul.a.dtype, b = matmul.b.dtype, c = matmul.c.dtype;
    if (!is_floating(a) || a != b) {
        throw DtypeError(fmt::format("matmul: operands must share a floating dtype, got {} and {}", name(a), name(b)));
    }
    if (c != a && !(is_half(a) && c == Dtype::f32)) {
        throw DtypeError(
            fmt::format("matmul: {} operands give {} or, from halves, f32; not {}", name(a), name(a), name(c)));
    }
    if (matmul.has_bias() && matmul.bias.dtype != a && matmul.bias.dtype != c) {
        throw DtypeError(
            fmt::format("matmul: the bias must be {} or {}, got {}", name(a), name(c), name(matmul.bias.dtype)));
    }
    check_activation(matmul);
    if (matmul.has_sums()) check_sums(matmul);
}

/// Null for what the blocked kernel does, such as batches.
LibraryMatmul* library(StreamState* state, int threads, const Problem& problem, const Matmul& matmul) {
    if (state == nullptr || problem.m * problem.n * problem.k < kLibraryThreshold) return nullptr;
    return state->get<MatmulCache>().find(threads, problem, matmul);
}

/// c *= beta, row by row.
void scale(const Problem& p, const Matmul& matmul) {
    float buffer[kChunk];
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; j += kChunk) {
            const std::int64_t count = std::min(kChunk, p.n - j);
            std::byte* row = matmul.c.at(i * p.c_row + j * p.c_column);
            load(row, matmul.c.dtype, p.c_column, count, buffer);
            for (std::int64_t l = 0; l < count; ++l) buffer[l] *= matmul.beta;
            store(buffer, count, row, matmul.c.dtype, p.c_column);
        }
    }
}

/// The sums of rows that cuBLASLt writes, to be added to others, stand behind its workspace.
std::size_t cuda_scratch(Stream& stream, const Matmul& matmul) {
    std::size_t bytes = 0;
    if (matmul.has_sums()) {
        const RowSums sums(matmul);
        bytes = reduce_scratch(stream, sums.rows, sums.sums);
    }
    if (compute_of(stream).own_kernels) return bytes;
    if (plan_fused(reduce(matmul), matmul)) {
        const std::int64_t sums = matmul.has_sums() ? matmul.sums.numel() : 0;
        return std::max(bytes, kGemmWorkspace + static_cast<std::size_t>(sums) * size_of(matmul.sums.dtype));
    }
    const Matmul product = product_part(matmul);
    return plan_gemm(reduce(product), product) ? std::max(bytes, kGemmWorkspace) : bytes;
}

void multiply(CpuStream& stream, const Problem& problem, const Matmul& product, std::byte* scratch) {
    if (takes_few_rows(problem, product)) return few_rows_matmul(stream, problem, product);
    LibraryMatmul* const compiled = library(stream.state, stream.threads, problem, product);
    if (compiled == nullptr) return blocked_matmul(stream, problem, product, scratch);
    // oneDNN would compile one more primitive for each other beta: they are rare.
    if (product.beta != 0 && product.beta != 1) scale(problem, product);
    compiled->run(stream, product, scratch);
}

}  // namespace

std::size_t matmul_scratch(Stream& stream, const Matmul& matmul) {
    check(matmul);
    if (on_cuda(stream)) return cuda_scratch(stream, matmul);
    const Matmul product = product_part(matmul);
    const Problem problem = reduce(product);
    if (takes_few_rows(problem, product)) return 0;
    const int threads = threads_of(stream);
    StreamState* state = std::visit([](auto& s) { return s.state; }, stream);
    const LibraryMatmul* compiled = library(state, threads, problem, product);
    return compiled != nullptr ? compiled->scratch() : blocked_scratch(threads, problem, product.a.dtype);
}

void matmul(CpuStream& stream, const Matmul& matmul, std::byte* scratch) {
    if (matmul.has_sums()) sum_rows(stream, matmul, scratch);
    const Matmul product = product_part(matmul);
    const Problem problem = reduce(product);
    if (problem.m == 0 || problem.n == 0 || problem.batches() == 0) return;
    multiply(stream, problem, product, scratch);
    if (matmul.has_inner()) finish_activation(stream, matmul);
}

}  // namespace headroom::kernels
