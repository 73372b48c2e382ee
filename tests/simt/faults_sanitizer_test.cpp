// Faults that take a sanitizer: each kernel runs in a process of its own, which the sanitizer must end. In other builds
// the same kernels run to show that they need it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/kernels/faults.hpp>

namespace headroom::simt {
namespace faults_sanitizer_test {

using testing::AllOf;
using testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
constexpr bool kRaces = true;
#else
constexpr bool kRaces = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kBounds = true;
#else
constexpr bool kBounds = false;
#endif

template <class Kernel>
void expect_race(const Kernel& kernel, std::uint32_t blocks = 1) {
    Emulator gpu;
    Array<float> y(2 * faults::kThreads);
    const auto run = [&] { kernels::device::launch(gpu, faults::faulty_shape(blocks), kernel, y.data()); };
    if constexpr (!kRaces) return run();
    for (std::uint64_t seed = gpu.seed(), i = 0; i < 5; ++i) {
        gpu.reseed(seed + i);
        EXPECT_EXIT((run(), std::exit(0)), testing::ExitedWithCode(66),
                    AllOf(HasSubstr("data race"), HasSubstr("faults.hpp"), HasSubstr("while emulating"),
                          HasSubstr("HEADROOM_TEST_SEED=")));
    }
}

TEST(Races, MissingSyncIsFound) { expect_race(faults::MissingSync{}); }
TEST(Races, MissingWarpSyncIsFound) { expect_race(faults::MissingWarpSync{}); }
TEST(Races, ShuffleAndVoteDoNotMakeWritesVisible) { expect_race(faults::ShuffleInsteadOfWarpSync{}); }
TEST(Races, MissingSyncBeforeScratchIsUsedAgainIsFound) { expect_race(faults::MissingSecondSync{}); }
TEST(Races, TwoBlocksThatWriteOneElementAreFound) { expect_race(faults::BlocksWriteTheSame{}, 2); }
TEST(Races, BlockThatReadsWhatAnotherWritesIsFound) { expect_race(faults::BlockReadsAnothers{}, 2); }
TEST(Races, SumWithoutAtomicsIsFound) { expect_race(faults::SumWithoutAtomics{}); }

/// How many of twenty orders end with another result than all ones.
template <class Kernel>
int wrong_orders(const Kernel& kernel) {
    Emulator gpu;
    int wrong = 0;
    for (std::uint64_t seed = gpu.seed(), i = 0; i < 20; ++i) {
        gpu.reseed(seed + i);
        Array<float> y(faults::kThreads);
        kernels::device::launch(gpu, faults::faulty_shape(), kernel, y.data());
        wrong += std::count(y.begin(), y.end(), 1.0f) != faults::kThreads;
    }
    return wrong;
}

TEST(Races, RandomOrderShowsAMissingSyncInTheResultWithoutASanitizer) {
    if constexpr (kRaces) GTEST_SKIP() << "ThreadSanitizer would end the test";
    EXPECT_EQ(wrong_orders(faults::MissingSync{}), 20);
    EXPECT_EQ(wrong_orders(faults::MissingWarpSync{}), 20);
}

TEST(Bounds, WritePastTheEndOfGlobalMemoryIsFound) {
    if constexpr (!kBounds) GTEST_SKIP() << "needs AddressSanitizer";
    Emulator gpu;
    Array<float> y(faults::kThreads);
    EXPECT_DEATH(kernels::device::launch(gpu, faults::faulty_shape(), faults::GlobalPastTheEnd{}, y.data()),
                 AllOf(HasSubstr("heap-buffer-overflow"), HasSubstr("while emulating"), HasSubstr("GlobalPastTheEnd")));
}

TEST(Bounds, VectorLoadPastTheEndOfGlobalMemoryIsFound) {
    if constexpr (!kBounds) GTEST_SKIP() << "needs AddressSanitizer";
    Emulator gpu;
    Array<float> x(4 * faults::kThreads - 1), y(faults::kThreads);
    EXPECT_DEATH(
        kernels::device::launch(gpu, faults::faulty_shape(), faults::GlobalVectorPastTheEnd{}, x.data(), y.data()),
        AllOf(HasSubstr("heap-buffer-overflow"), HasSubstr("HEADROOM_TEST_SEED=")));
}

}  // namespace faults_sanitizer_test
}  // namespace headroom::simt
