// The same search on a GPU, or in the emulator.
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/nn/models_search.hpp>

namespace headroom::nn {
namespace {

TEST(ModelsSearchCuda, PeaksAreKnownAndRecomputationChangesNoBit) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    test::search_models_at_random(3, 2, [](int) { return Context::cuda(0, {.seed = 7}); });
}

}  // namespace
}  // namespace headroom::nn
