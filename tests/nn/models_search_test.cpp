// Models, sizes, policies, dtypes, micro-batches and optimizers at random: the peak is known before, recomputation
// changes no bit, running statistics take in each batch once, and eight micro-batches take what two take.
#include <gtest/gtest.h>

#include <headroom/tests/nn/models_search.hpp>

namespace headroom::nn {
namespace {

/// .ci/nightly draws 500.
TEST(ModelsSearch, PeaksAreKnownAndRecomputationChangesNoBit) {
    test::search_models_at_random(40, 100, [](int threads) { return Context::cpu({.threads = threads, .seed = 7}); });
}

}  // namespace
}  // namespace headroom::nn
