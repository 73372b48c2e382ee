// What CUDA is asked and told of kernels before launches, over a runtime that counts the calls.
#include <headroom/kernels/device/cuda_kernels.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <headroom/tests/kernels/fake_runtime/fake_runtime.hpp>

namespace headroom::kernels {
namespace runtime_kernels_test {

using device::LaunchShape;

constexpr int kMultiprocessors = 132;
const char kKernels[2] = {};  // their addresses stand for kernels

class RuntimeKernels : public testing::Test {
  protected:
    RuntimeKernels() { fake_runtime::reset(1); }
    ~RuntimeKernels() override { EXPECT_EQ(fake_runtime::problem(), ""); }

    cudaError_t prepare(LaunchShape& shape, int kernel = 0) {
        return kernels.prepare(&kKernels[kernel], kMultiprocessors, shape);
    }
    LaunchShape prepared(LaunchShape shape, int kernel = 0) {
        EXPECT_EQ(prepare(shape, kernel), cudaSuccess);
        EXPECT_EQ(fake_runtime::launch(&kKernels[kernel], shape.shared_bytes), cudaSuccess);
        return shape;
    }
    static int asked() { return fake_runtime::calls("cudaOccupancyMaxActiveBlocksPerMultiprocessor"); }
    static int told() { return fake_runtime::calls("cudaFuncSetAttribute"); }

    CudaKernels kernels;
};

/// 256 threads of 40 registers: 6 blocks.
TEST_F(RuntimeKernels, ALoopTakesAsManyBlocksAsRunAtOnce) {
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(prepared({.x = 32 * kMultiprocessors, .loops = true, .threads = 256}).x, 6u * kMultiprocessors);
        EXPECT_EQ(prepared({.x = 100, .loops = true, .threads = 256}).x, 100u);
        EXPECT_EQ(prepared({.x = 5000, .threads = 256}).x, 5000u);  // one block for each piece of its work
    }
    EXPECT_EQ(asked(), 1);
    EXPECT_EQ(prepared({.x = 5000, .loops = true, .y = 3, .threads = 256}).x, 2u * kMultiprocessors);
    EXPECT_EQ(prepared({.x = 5000, .loops = true, .y = 60000, .threads = 256}).x, 1u);
    EXPECT_EQ(asked(), 1);
    EXPECT_EQ(prepared({.x = 5000, .loops = true, .threads = 512}).x, 3u * kMultiprocessors);
    EXPECT_EQ(prepared({.x = 5000, .loops = true, .threads = 256}, 1).x, 6u * kMultiprocessors);
    EXPECT_EQ(asked(), 3);
}

TEST_F(RuntimeKernels, SharedMemoryIsAllowedOnce) {
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(prepared({.x = 5, .shared_bytes = 48 * 1024}).x, 5u);
        EXPECT_EQ(prepared({.x = 5, .shared_bytes = 160 * 1024}, 1).x, 5u);
        EXPECT_EQ(prepared({.x = 5, .shared_bytes = 100 * 1024}, 1).x, 5u);
        EXPECT_EQ(prepared({.x = 5000, .loops = true, .shared_bytes = 100 * 1024}, 1).x, 2u * kMultiprocessors);
    }
    EXPECT_EQ(told(), 1);
    EXPECT_EQ(asked(), 1);
}

/// CUDA keeps the attribute of a kernel, not of a stream's: what one stream was told holds when another was told less.
TEST_F(RuntimeKernels, SharedMemoryIsThereHoweverManyStreamsAskForIt) {
    CudaKernels others;
    LaunchShape little{.x = 5, .shared_bytes = 100 * 1024}, most{.x = 5, .shared_bytes = 226 * 1024};
    prepared(most);
    EXPECT_EQ(others.prepare(&kKernels[0], kMultiprocessors, little), cudaSuccess);
    prepared(most);
    EXPECT_EQ(prepare(little, 1), cudaSuccess);
    EXPECT_EQ(others.prepare(&kKernels[1], kMultiprocessors, most), cudaSuccess);
    prepared(most, 1);
    EXPECT_NE(fake_runtime::launch(&kKernels[1], 227 * 1024), cudaSuccess);  // 1 KiB is static
}

/// What CUDA refuses is asked again by the next launch.
TEST_F(RuntimeKernels, ARefusalIsNotRemembered) {
    LaunchShape shape{.x = 5000, .loops = true, .threads = 256, .shared_bytes = 100 * 1024};
    for (const char* const function :
         {"cudaFuncGetAttributes", "cudaFuncSetAttribute", "cudaOccupancyMaxActiveBlocksPerMultiprocessor"}) {
        fake_runtime::fail(function, 0, cudaErrorMemoryAllocation);
        EXPECT_EQ(prepare(shape), cudaErrorMemoryAllocation);
        EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    }
    EXPECT_EQ(prepared(shape).x, 2u * kMultiprocessors);
}

}  // namespace runtime_kernels_test
}  // namespace headroom::kernels
