#include <headroom/kernels/device/probe.hpp>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/gpu.hpp>

namespace headroom::kernels {
namespace {

using ProbeCuda = test::CudaTest;

TEST_F(ProbeCuda, StartsWhereThereIsCodeForTheDevice) {
    EXPECT_NO_THROW(probe(gpu->stream));
    EXPECT_NO_THROW(gpu->device->synchronize());
}

}  // namespace
}  // namespace headroom::kernels
