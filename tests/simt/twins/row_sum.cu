// What tests/simt/kernels/row_sum.cu would be without `Block`: the machine code of the two is compared (twins_test.py).
#include <cuda_fp16.h>

#include <cstdint>

struct alignas(16) Halves {
    __half at[8];
};

__global__ void __launch_bounds__(256) row_sum_by_hand(const __half* x, float* y, std::int64_t columns) {
    extern __shared__ __align__(128) float scratch[];
    const __half* row = x + blockIdx.x * columns;
    float sum = 0.0f;
    std::int64_t done = 0;
    if (columns % 8 == 0) {
        done = columns;
        for (std::int64_t i = threadIdx.x * 8; i < columns; i += blockDim.x * 8) {
            const Halves part = *reinterpret_cast<const Halves*>(row + i);
            float values[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) values[k] = __half2float(part.at[k]);
#pragma unroll
            for (int k = 0; k < 8; ++k) sum += values[k];
        }
    }
    for (std::int64_t i = done + threadIdx.x; i < columns; i += blockDim.x) sum += __half2float(row[i]);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    if (threadIdx.x % 32 < blockDim.x / 32) sum = scratch[threadIdx.x % 32];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
