#pragma once
// Launchers of the example kernels, which prove `Block` and the emulator: small, and each with one technique that the
// library's kernels use. T is float, f16 or bf16 where it is free. Not for use outside of tests.
//
//     row_sum(gpu, x.data(), y.data(), rows, columns);
#include <cstdint>

#include <headroom/kernels/device/launch.hpp>

namespace headroom::simt::test_kernels {

using kernels::bf16;
using kernels::f16;

/// y[row] = sum of x[row, :]. A block per row, 16-byte loads where rows are aligned.
template <class T>
void row_sum(kernels::device::Stream stream, const T* x, float* y, std::int64_t rows, std::int64_t columns);

/// y[j, i] = x[i, j], through a padded tile of shared memory.
void transpose(kernels::device::Stream stream, const float* x, float* y, std::int64_t rows, std::int64_t columns);

/// y[row, i] = x[row, 0] + ... + x[row, i], a warp per row, by shuffles.
void prefix_sum(kernels::device::Stream stream, const int* x, int* y, std::int64_t rows, std::int64_t columns);

/// c = a b^T; a is [m, k], b is [n, k], T is f16 or bf16. One warp per 16 x 16 tile of c, on tensor cores.
template <class T>
void matmul(kernels::device::Stream stream, const T* a, const T* b, float* c, std::int64_t m, std::int64_t n,
            std::int64_t k);

/// bins[x[i]] += 1 for x[i] in [0, 64): atomics in shared memory, then in global memory.
void histogram(kernels::device::Stream stream, const int* x, int* bins, std::int64_t n);

/// Calls all functions of `Block`; wrong[block] is the number of answers that are not as promised. For each block,
/// `global` has 384 elements and `halves` 768.
void self_check(kernels::device::Stream stream, int* wrong, float* global, f16* halves, std::int64_t blocks);

}  // namespace headroom::simt::test_kernels
