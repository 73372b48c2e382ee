#pragma once
// The seed of tests that draw at random: a committed number, so that a verdict does not depend on luck, unless
// HEADROOM_TEST_SEED is set in the environment: to a number, or to `random` for a new one each time, as by
// scripts/test --random-seeds. Not for inputs that are always the same: they have a seed of their own.
//
//     std::mt19937 random(test::random_seed());  // prints HEADROOM_TEST_SEED=3394971709
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

namespace headroom::test {

/// Changed on purpose alone: other numbers draw programs that nobody has run.
inline constexpr std::uint64_t kCommittedSeed = 20261129;

inline std::uint64_t chosen_seed() {
    const char* const text = std::getenv("HEADROOM_TEST_SEED");
    if (!text || !*text) return kCommittedSeed;
    return std::string_view(text) == "random" ? std::random_device{}() : std::strtoull(text, nullptr, 10);
}

/// Prints it, so that a failure can be repeated.
inline std::uint64_t random_seed() {
    const std::uint64_t seed = chosen_seed();
    std::printf("HEADROOM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    return seed;
}

}  // namespace headroom::test
