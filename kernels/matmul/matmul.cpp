#include <headroom/kernels/matmul/matmul.hpp>

#include <variant>

#include <headroom/kernels/matmul/blocked.hpp>
#include <headroom/kernels/matmul/problem.hpp>

namespace headroom::kernels {

std::size_t matmul_scratch(Stream& stream, const Matmul& matmul) {
    const Problem problem = reduce(matmul);
    return blocked_scratch(threads_of(stream), problem, matmul.a.dtype);
}

void matmul(CpuStream& stream, const Matmul& matmul, std::byte* scratch) {
    const Problem problem = reduce(matmul);
    if (problem.m == 0 || problem.n == 0 || problem.batches() == 0) return;
    blocked_matmul(stream, problem, matmul, scratch);
}

}  // namespace headroom::kernels
