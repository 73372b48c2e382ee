#pragma once
// Where tests that draw at random begin: HEADROOM_TEST_SEED of the environment, which .ci/run takes from the commit,
// else a new number each time. Not for inputs that are always the same: they have a seed of their own.
//
//     std::mt19937 random(test::random_seed());  // prints HEADROOM_TEST_SEED=3394971709
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace headroom::test {

/// Prints it, so that a failure can be repeated.
inline std::uint64_t random_seed() {
    const char* const text = std::getenv("HEADROOM_TEST_SEED");
    const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
    std::printf("HEADROOM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    return seed;
}

}  // namespace headroom::test
