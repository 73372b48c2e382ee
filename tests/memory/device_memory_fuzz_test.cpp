// Random sequences of calls, against a model. HEADROOM_FUZZ_OPERATIONS sets how many calls a test makes in all,
// HEADROOM_TEST_SEED the first seed.
#include <chrono>
#include <cstdlib>

#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/memory/fuzz_player.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace device_memory_fuzz_test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kOperations = 10'000;
#else
constexpr std::uint64_t kOperations = 40'000;
#endif
/// Calls on one memory; then the next seed.
constexpr std::uint64_t kRound = 20'000;

std::uint64_t operations() {
    const char* const value = std::getenv("HEADROOM_FUZZ_OPERATIONS");
    return value ? std::strtoull(value, nullptr, 10) : kOperations;
}

class DeviceMemoryFuzz : public DriverTest {
  protected:
    void play(FuzzOptions options) {
        const auto start = std::chrono::steady_clock::now();
        const std::uint64_t first = headroom::test::random_seed();
        std::uint64_t steps = 0;
        std::uint64_t refusals = 0;
        std::uint64_t failures = 0;
        for (options.seed = first; steps < operations() && !HasFailure(); ++options.seed) {
            SCOPED_TRACE(::testing::Message() << "seed " << options.seed);
            FuzzPlayer player(GetParam().make(), options);
            const std::uint64_t last = std::min(kRound, operations() - steps);
            while (player.steps() < last && !HasFailure()) player.step();
            if (HasFailure()) ADD_FAILURE() << "at step " << player.steps();
            player.finish();
            steps += player.steps();
            refusals += player.refusals();
            failures += player.failures();
        }
        EXPECT_GT(refusals, 0u) << "the limit was not reached";
        EXPECT_EQ(options.failures, failures > 0);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        fmt::print("{} calls, seeds {} to {}, {} refused, {:.1f} s\n", steps, first, options.seed - 1, refusals,
                   seconds.count());
    }
};

TEST_P(DeviceMemoryFuzz, KeepsTheOrderOfStreamsAndAllFiguresExact) { play({.streams = 5}); }

TEST_P(DeviceMemoryFuzz, KeepsThemWithOneStream) { play({.streams = 1, .limit = 9}); }

TEST_P(DeviceMemoryFuzz, KeepsThemWith64Streams) { play({.streams = 64, .limit = 16}); }

TEST_P(DeviceMemoryFuzz, KeepsThemWhileTheDriverFails) { play({.limit = 12, .failures = true}); }

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryFuzz, all_drivers(), driver_name);

TEST(SimulatedHost, DecidesAsTheHostDoes) {
    const std::uint64_t seed = headroom::test::random_seed();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    FuzzPlayer host(make_host_driver(), {.seed = seed});
    FuzzPlayer simulated(make_simulated_host_driver(), {.seed = seed});
    for (std::uint64_t step = 0; step < std::min<std::uint64_t>(operations(), 10'000) && !HasFailure(); ++step) {
        host.step();
        simulated.step();
        ASSERT_EQ(simulated.memory().statistics(), host.memory().statistics()) << "step " << step;
        ASSERT_EQ(simulated.refusals(), host.refusals()) << "step " << step;
    }
    EXPECT_EQ(simulated.memory().largest_paths(20), host.memory().largest_paths(20));
    host.finish();
    simulated.finish();
}

}  // namespace device_memory_fuzz_test
}  // namespace headroom::memory::test
