#include <headroom/kernels/matmul/matmul.hpp>

#include <fmt/format.h>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/matmul/blocked.hpp>
#include <headroom/kernels/matmul/few_rows.hpp>
#include <headroom/kernels/matmul/gemm.hpp>
#include <headroom/kernels/matmul/library.hpp>
#include <headroom/kernels/matmul/problem.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

/// Multiply-adds below which oneDNN's call costs more than it gains.
constexpr std::int64_t kLibraryThreshold = 1 << 16;

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

}  // namespace

std::size_t matmul_scratch(Stream& stream, const Matmul& matmul) {
    check(matmul);
    const Problem problem = reduce(matmul);
    if (on_cuda(stream)) {
        if (state_of(stream).get<CudaMatmulSettings>().own_kernels) return 0;
        return plan_gemm(problem, matmul) ? kGemmWorkspace : 0;
    }
    if (takes_few_rows(problem, matmul)) return 0;
    const int threads = threads_of(stream);
    StreamState* state = std::visit([](auto& s) { return s.state; }, stream);
    const LibraryMatmul* product = library(state, threads, problem, matmul);
    return product != nullptr ? product->scratch() : blocked_scratch(threads, problem, matmul.a.dtype);
}

void matmul(CpuStream& stream, const Matmul& matmul, std::byte* scratch) {
    const Problem problem = reduce(matmul);
    if (problem.m == 0 || problem.n == 0 || problem.batches() == 0) return;
    if (takes_few_rows(problem, matmul)) return few_rows_matmul(stream, problem, matmul);
    LibraryMatmul* product = library(stream.state, stream.threads, problem, matmul);
    if (product == nullptr) return blocked_matmul(stream, problem, matmul, scratch);
    // oneDNN would compile one more primitive for each other beta: they are rare.
    if (matmul.beta != 0 && matmul.beta != 1) scale(problem, matmul);
    product->run(stream, matmul, scratch);
}

}  // namespace headroom::kernels
