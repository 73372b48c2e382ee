// Static placement: against the bound that no placement can beat, against the optimum of tiny instances, and on inputs
// at the edge.
#include <headroom/memory/plan/placement.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <headroom/memory/error.hpp>

#include <headroom/bench/memory/training_steps.hpp>

namespace headroom {
namespace {

using Lifetimes = std::vector<Lifetime>;

/// That no two requests overlap in both time and space, and that the height is that of the highest.
void expect_valid(const Lifetimes& lifetimes, const Placement& placement) {
    ASSERT_EQ(placement.offsets.size(), lifetimes.size());
    std::vector<std::size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return lifetimes[a].begin < lifetimes[b].begin; });
    std::size_t height = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const Lifetime& a = lifetimes[order[i]];
        const std::size_t a_offset = placement.offsets[order[i]];
        height = std::max(height, a_offset + a.bytes);
        for (std::size_t j = i + 1; j < order.size() && lifetimes[order[j]].begin < a.end; ++j) {
            const Lifetime& b = lifetimes[order[j]];
            const std::size_t b_offset = placement.offsets[order[j]];
            ASSERT_FALSE(b.begin < b.end && a_offset < b_offset + b.bytes && b_offset < a_offset + a.bytes)
                << "requests " << order[i] << " and " << order[j];
        }
    }
    EXPECT_EQ(placement.height, height);
    EXPECT_GE(placement.height, max_live(lifetimes));
}

/// In order of a best placement's offsets, the lowest free place for each is no higher than its place there: so some
/// order gives the optimum.
std::size_t optimum(const Lifetimes& lifetimes) {
    std::vector<std::size_t> order(lifetimes.size()), offsets(lifetimes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::size_t best = SIZE_MAX;
    do {
        std::size_t height = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            const Lifetime& a = lifetimes[order[i]];
            std::size_t offset = 0;
            for (bool moved = true; moved;) {
                moved = false;
                for (std::size_t j = 0; j < i; ++j) {
                    const Lifetime& b = lifetimes[order[j]];
                    const std::size_t top = offsets[order[j]] + b.bytes;
                    const bool together = a.begin < b.end && b.begin < a.end;
                    if (together && offset < top && offsets[order[j]] < offset + a.bytes) {
                        offset = top;
                        moved = true;
                    }
                }
            }
            offsets[order[i]] = offset;
            height = std::max(height, offset + a.bytes);
        }
        best = std::min(best, height);
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

Lifetimes random_lifetimes(std::mt19937& random, std::size_t count, std::uint32_t points, std::size_t sizes) {
    Lifetimes lifetimes;
    for (std::size_t i = 0; i < count; ++i) {
        const auto begin = static_cast<std::uint32_t>(random() % points);
        const auto end = static_cast<std::uint32_t>(begin + 1 + random() % (points - begin));
        lifetimes.push_back({64 * (1 + random() % sizes), begin, end});
    }
    return lifetimes;
}

TEST(Placement, OfNothingIsEmpty) {
    EXPECT_EQ(place({}).height, 0u);
    const Lifetimes nothing = {{0, 0, 5}, {64, 3, 3}};
    EXPECT_EQ(place(nothing).height, 0u);
    EXPECT_EQ(place(nothing).offsets, (std::vector<std::size_t>{0, 0}));
}

TEST(Placement, StacksEqualLifetimes) {
    const Lifetimes equal(100, Lifetime{192, 7, 9});
    const Placement placement = place(equal);
    expect_valid(equal, placement);
    EXPECT_EQ(placement.height, 19'200u);
}

TEST(Placement, ReusesWhatEndsWhereTheNextBegins) {
    Lifetimes chain;
    for (std::uint32_t i = 0; i < 100; ++i) chain.push_back({4096, i, i + 1});
    EXPECT_EQ(place(chain).height, 4096u);
}

TEST(Placement, OfNestedLifetimesHasNoGaps) {
    Lifetimes nested;
    for (std::uint32_t i = 0; i < 500; ++i) nested.push_back({64 * (1 + i * 7919 % 100), i, 1001 - i});
    const Placement placement = place(nested);
    expect_valid(nested, placement);
    EXPECT_EQ(placement.height, max_live(nested));
}

TEST(Placement, TakesLifetimesInAnyOrder) {
    Lifetimes lifetimes = lifetimes_of(record_gpt_step({.layers = 3}));
    std::shuffle(lifetimes.begin(), lifetimes.end(), std::mt19937(1));
    const Placement placement = place(lifetimes);
    expect_valid(lifetimes, placement);
    EXPECT_EQ(placement.height, max_live(lifetimes));
}

TEST(Placement, OfHugeSizesDoesNotOverflow) {
    const std::size_t huge = (std::size_t{1} << 60) - 64;
    Lifetimes chains;
    for (std::uint32_t i = 0; i < 300; ++i) chains.push_back({huge, i, i + 4});
    const Placement placement = place(chains);
    expect_valid(chains, placement);
    EXPECT_EQ(placement.height, 4 * huge);
}

TEST(Placement, RejectsWhatCannotBe) {
    const Lifetimes backwards = {{64, 2, 1}};
    EXPECT_THROW(place(backwards), Error);
    const Lifetimes too_many(5, Lifetime{std::size_t{1} << 60, 0, 1});
    EXPECT_THROW(place(too_many), Error);
    const Lifetimes too_large = {{64, 0, 1}, {SIZE_MAX, 0, 1}};
    EXPECT_THROW(place(too_large), Error);
}

TEST(Placement, OfTrainingStepsReachesTheBound) {
    for (const int micro_batches : {1, 4}) {
        for (const int experts : {0, 8}) {
            for (const bool checkpoint : {false, true}) {
                for (const bool offload : {false, true}) {
                    for (const bool vary : {false, true}) {
                        SCOPED_TRACE(::testing::Message()
                                     << micro_batches << " micro-batches, " << experts << " experts, checkpoint "
                                     << checkpoint << ", offload " << offload << ", lengths vary " << vary);
                        const Lifetimes lifetimes = lifetimes_of(record_gpt_step({.micro_batches = micro_batches,
                                                                                  .checkpoint = checkpoint,
                                                                                  .offload = offload,
                                                                                  .experts = experts,
                                                                                  .lengths_vary = vary}));
                        const Placement placement = place(lifetimes);
                        expect_valid(lifetimes, placement);
                        EXPECT_LE(static_cast<double>(placement.height),
                                  1.001 * static_cast<double>(max_live(lifetimes)));
                    }
                }
            }
        }
    }
}

TEST(Placement, OfRandomStepsStaysNearTheBound) {
    for (const std::size_t live : {20, 200}) {
        const Lifetimes lifetimes = lifetimes_of(record_random_step(2000, live, 3));
        const Placement placement = place(lifetimes);
        expect_valid(lifetimes, placement);
        EXPECT_LE(static_cast<double>(placement.height), 1.06 * static_cast<double>(max_live(lifetimes))) << live;
    }
}

TEST(Placement, OfRandomLifetimesNeverOverlaps) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 200; ++i) {
        const Lifetimes lifetimes =
            random_lifetimes(random, 1 + random() % 60, 1 + random() % 40, std::size_t{1} << random() % 10);
        expect_valid(lifetimes, place(lifetimes));
    }
}

TEST(Placement, OfAFewIsOptimal) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    int above = 0;
    constexpr int kInstances = 1000;
    for (int i = 0; i < kInstances; ++i) {
        const Lifetimes lifetimes = random_lifetimes(random, 1 + random() % 6, 8, 10);
        const std::size_t height = place(lifetimes).height, best = optimum(lifetimes);
        ASSERT_GE(height, best);
        above += height > best;
    }
    EXPECT_EQ(above, 0);
}

TEST(Placement, IsTheSameEachTime) {
    const Lifetimes lifetimes = lifetimes_of(record_random_step(1000, 50, 5));
    const Placement once = place(lifetimes), again = place(lifetimes);
    EXPECT_EQ(once.height, again.height);
    EXPECT_EQ(once.offsets, again.offsets);
}

}  // namespace
}  // namespace headroom
