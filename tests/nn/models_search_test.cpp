// Models, sizes, policies, dtypes, micro-batches and optimizers at random: the peak is known before, recomputation
// changes no bit, running statistics take in each batch once, and eight micro-batches take what two take.
#include <memory>

#include <gtest/gtest.h>

#include <headroom/core/category.hpp>
#include <headroom/tests/nn/models_search.hpp>
#include <headroom/tests/support/small_pages.hpp>

namespace headroom::nn {
namespace models_search_test {

/// .ci/nightly draws 500.
TEST(ModelsSearch, PeaksAreKnownAndRecomputationChangesNoBit) {
    test::search_models_at_random(40, 100, [](const test::Place& place) {
        auto memory =
            std::make_shared<DeviceMemory>(headroom::test::make_small_pages(), training_memory({.limit = place.limit}));
        return Context::cpu({.threads = place.threads, .seed = 7, .memory = memory});
    });
}

}  // namespace models_search_test
}  // namespace headroom::nn
