// What tests/simt/kernels/matmul.cu would be without `Block`: the machine code of the two is compared (twins_test.py).
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

using namespace nvcuda;

__global__ void __launch_bounds__(128)
    matmul_by_hand(const __half* a, const __half* b, float* c, std::int64_t m, std::int64_t n, std::int64_t k) {
    extern __shared__ __align__(128) unsigned char memory[];
    __half* left = reinterpret_cast<__half*>(memory);
    __half* right = reinterpret_cast<__half*>(memory + 2048);
    float* result = reinterpret_cast<float*>(memory + 4096);
    const int part = threadIdx.x / 32 * 256;
    const std::int64_t row = (std::int64_t{blockIdx.y} * 4 + threadIdx.x / 32) * 16;
    const std::int64_t column = std::int64_t{blockIdx.x} * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> tile_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> tile_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (std::int64_t begin = 0; begin < k; begin += 16) {
        for (int i = threadIdx.x % 32; i < 256; i += 32) {
            const std::int64_t at = begin + i % 16, i_a = row + i / 16, i_b = column + i / 16;
            left[part + i] = at < k && i_a < m ? a[i_a * k + at] : __ushort_as_half(0);
            right[part + i] = at < k && i_b < n ? b[i_b * k + at] : __ushort_as_half(0);
        }
        __syncwarp();
        wmma::load_matrix_sync(tile_a, left + part, 16);
        wmma::load_matrix_sync(tile_b, right + part, 16);
        wmma::mma_sync(sum, tile_a, tile_b, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(result + part, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < 256; i += 32)
        if (row + i / 16 < m && column + i % 16 < n) c[(row + i / 16) * n + column + i % 16] = result[part + i];
}
