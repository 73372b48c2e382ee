#include <headroom/kernels/device/probe.hpp>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace probe_cuda_test {

using ProbeCuda = test::CudaTest;

TEST_F(ProbeCuda, StartsWhereThereIsCodeForTheDevice) {
    EXPECT_NO_THROW(probe(gpu->stream));
    EXPECT_NO_THROW(gpu->device->synchronize());
}

/// A kernel of later work may be writing it while the host looks.
TEST_F(ProbeCuda, AnIndexErrorIsNotTakenBeforeItIsComplete) {
    IndexError& error = *gpu->device->index_error();
    error.state = IndexError::kClaimed;
    EXPECT_FALSE(gpu->device->take_index_error());
    EXPECT_EQ(error.state, IndexError::kClaimed);
    error = {.state = IndexError::kComplete, .path = 3, .what = "index", .value = 7, .position = 2, .bound = 5};
    EXPECT_EQ(gpu->device->take_index_error().value().position, 2);
    EXPECT_FALSE(gpu->device->take_index_error());
}

}  // namespace probe_cuda_test
}  // namespace headroom::kernels
