// The same search on a GPU, or in the emulator.
#include <gtest/gtest.h>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/tests/nn/models_search.hpp>

namespace headroom::nn {
namespace models_search_cuda_test {

TEST(ModelsSearchCuda, PeaksAreKnownAndRecomputationChangesNoBit) {
    if (kernels::cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
    test::search_models_at_random(3, 2, [](const test::Place& place) {
        return Context::cuda(0, {.memory_limit = place.limit, .seed = 7, .compute = {.graphs = place.graphs}});
    });
}

}  // namespace models_search_cuda_test
}  // namespace headroom::nn
