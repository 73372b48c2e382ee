// What `Block` promises to kernels, as the emulator keeps it.
#include <headroom/kernels/device/block.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>
#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/tests/kernels/race_cases.hpp>
#include <headroom/tests/simt/emulator.hpp>
#include <headroom/tests/simt/kernels/examples.hpp>

namespace headroom::simt {
namespace block_test {

using namespace headroom::kernels::device;

constexpr unsigned kThreads = 96;
constexpr LaunchShape kShape{.threads = kThreads, .shared_bytes = 4096};

template <class T>
T read(const Shared<T>& region, unsigned i) {
    return region[i];
}

/// Runs a lambda as a kernel, in one block, and prints the seed if the test fails.
class BlockTest : public testing::Test {
  protected:
    template <class Kernel>
    void run(const Kernel& kernel, LaunchShape shape = kShape) {
        launch(gpu, shape, kernel);
    }
    void TearDown() override {
        if (HasFailure()) std::printf("HEADROOM_TEST_SEED=%llu\n", static_cast<unsigned long long>(gpu.seed()));
    }
    Emulator gpu;
};

TEST_F(BlockTest, EveryThreadOfTheGridRunsOnceAndKnowsItsPlace) {
    const LaunchShape shape{.x = 3, .y = 2, .z = 2, .threads = 64};
    Array<int> seen(3 * 2 * 2 * 64, 0);
    run(
        [&](Block& block) {
            ASSERT_EQ(block.threads(), 64u);
            ASSERT_EQ(block.warps(), 2u);
            ASSERT_EQ(block.warp() * 32 + block.lane(), block.thread());
            ASSERT_EQ(block.global_thread(), block.x() * 64 + block.thread());
            ASSERT_EQ(block.global_threads(), 3 * 64);
            ++seen[((block.z() * block.grid_y() + block.y()) * block.grid_x() + block.x()) * 64 + block.thread()];
        },
        shape);
    EXPECT_THAT(seen, testing::Each(1));
}

TEST_F(BlockTest, ShufflesReadTheNamedLane) {
    run([](Block& block) {
        const int lane = static_cast<int>(block.lane());
        EXPECT_EQ(block.shuffle_xor(kFullWarp, lane, 5), lane ^ 5);
        EXPECT_EQ(block.shuffle_up(kFullWarp, lane, 3), lane < 3 ? lane : lane - 3);
        EXPECT_EQ(block.shuffle_down(kFullWarp, lane, 3), lane > 28 ? lane : lane + 3);
        EXPECT_EQ(block.shuffle(kFullWarp, lane, 7), 7);
        EXPECT_EQ(block.shuffle(kFullWarp, lane, (block.lane() + 1) % 32), (lane + 1) % 32);
        EXPECT_EQ(block.shuffle(kFullWarp, 0.5 * lane, 9), 4.5);
        EXPECT_EQ(block.shuffle(kFullWarp, std::int64_t{lane} << 40, 2), std::int64_t{2} << 40);
    });
}

TEST_F(BlockTest, PartsOfAWarpMeetByTheirMask) {
    run([](Block& block) {
        const std::uint32_t even = 0x55555555u;
        if (block.lane() % 2 == 0) {
            EXPECT_EQ(block.ballot(even, block.lane() < 8), 0x55u);
            EXPECT_EQ(block.shuffle(even, block.lane(), 4), 4u);
        } else {
            EXPECT_EQ(block.ballot(~even, block.lane() < 8), 0xaau);
            block.warp_sync(~even);
        }
        EXPECT_EQ(block.ballot(kFullWarp, true), kFullWarp);
    });
}

TEST_F(BlockTest, VotesCountTheLanesOfTheMask) {
    run([](Block& block) {
        EXPECT_EQ(block.ballot(kFullWarp, block.lane() == 31), 0x80000000u);
        EXPECT_TRUE(block.any(kFullWarp, block.lane() == 3));
        EXPECT_FALSE(block.any(kFullWarp, false));
        EXPECT_FALSE(block.all(kFullWarp, block.lane() != 3));
        if (block.lane() < 3) {
            EXPECT_TRUE(block.all(0x7u, block.lane() != 3));
        }
    });
}

TEST_F(BlockTest, ReductionsGiveAllThreadsTheSameBitsInEveryOrder) {
    std::vector<float> x(kThreads);
    for (unsigned i = 0; i < kThreads; ++i)
        x[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 20));
    std::set<float> sums;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        gpu.reseed(seed);
        std::vector<float> y(kThreads);
        run([&](Block& block) {
            const Shared<float> scratch = block.shared<float>(block.warps());
            y[block.thread()] = block.sum(x[block.thread()], scratch);
            EXPECT_EQ(block.max(static_cast<float>(block.thread()), scratch), kThreads - 1.0f);
            EXPECT_TRUE(std::isnan(block.max(block.thread() == 40 ? NAN : 1.0f, scratch)));
            EXPECT_EQ(block.warp_reduce(1, Sum{}), 32);
        });
        sums.insert(y.begin(), y.end());
    }
    const double exact = std::accumulate(x.begin(), x.end(), 0.0);
    double magnitude = 0;
    for (const float value : x) magnitude += std::abs(value);
    EXPECT_EQ(sums.size(), 1u);
    EXPECT_NEAR(*sums.begin(), exact, magnitude * 10 * 0x1p-24);  // ten additions deep
}

TEST_F(BlockTest, SharedRegionsDoNotOverlapAndKeepWhatIsWritten) {
    run([](Block& block) {
        const Shared<float> first = block.shared<float>(kThreads);
        const Shared<std::int64_t> second = block.shared<std::int64_t>(kThreads + 1);
        first[block.thread()] = static_cast<float>(block.thread());
        second[block.thread()] = block.thread();
        second[block.thread()] += 1;
        if (block.thread() == 0) second[kThreads] = -1;
        block.sync();
        const unsigned other = kThreads - 1 - block.thread();
        EXPECT_EQ(read(first, other), static_cast<float>(other));
        EXPECT_EQ(read(second, other), other + 1);
        EXPECT_EQ(read(second.part(kThreads, 1), 0), -1);
        block.sync();
        first[block.thread()] = second[block.thread()];
        EXPECT_EQ(read(first, block.thread()), block.thread() + 1.0f);
    });
}

TEST_F(BlockTest, VectorsMoveSixteenBytesToAndFromBothMemories) {
    Array<float> x(4 * kThreads), y(4 * kThreads);
    std::iota(x.begin(), x.end(), 0.0f);
    run([&](Block& block) {
        const Shared<float> tile = block.shared<float>(4 * kThreads);
        block.store(tile, block.thread() * 4, block.load<4>(x.data() + block.thread() * 4));
        block.sync();
        const unsigned other = kThreads - 1 - block.thread();
        block.store(y.data() + other * 4, block.load<4>(tile, other * 4));
    });
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin()));
}

template <class T>
void expect_rounded_once(Emulator& gpu) {
    Array<T> x(8 * kThreads);
    launch(gpu, kShape, [&](Block& block) {
        Floats<8> values;
        for (int k = 0; k < 8; ++k) values[k] = 1.0f + static_cast<float>(block.thread() * 8 + k) / 3.0f;
        block.store_floats(x.data() + block.thread() * 8, values);
        const Floats<8> back = block.load_floats<8>(x.data() + block.thread() * 8);
        for (int k = 0; k < 8; ++k) {
            EXPECT_EQ(back[k], as_float(rounded<T>(values[k])));
            EXPECT_NEAR(back[k], values[k],
                        values[k] *
                            epsilon(sizeof(T) == 4           ? kernels::Dtype::f32
                                    : std::is_same_v<T, f16> ? kernels::Dtype::f16
                                                             : kernels::Dtype::bf16) /
                            2);
        }
    });
}

TEST_F(BlockTest, FloatsAreRoundedOnceToEveryType) {
    expect_rounded_once<float>(gpu);
    expect_rounded_once<f16>(gpu);
    expect_rounded_once<bf16>(gpu);
}

TEST_F(BlockTest, AtomicsLoseNothing) {
    float sum = 0;
    int count = 0, owner = -1;
    run([&](Block& block) {
        const Shared<unsigned> ticket = block.shared<unsigned>(1);
        if (block.thread() == 0) ticket[0] = 0;
        block.sync();
        EXPECT_LT(block.atomic_add(ticket, 0, 1), kThreads);
        block.atomic_add(&sum, 0.5f);
        if (block.atomic_cas(&owner, -1, static_cast<int>(block.thread())) == -1) block.atomic_add(&count, 1);
        block.sync();
        EXPECT_EQ(read(ticket, 0), kThreads);
        block.sync();
        EXPECT_EQ(block.atomic_cas(ticket, 0, 7, 8), kThreads);
    });
    EXPECT_EQ(sum, 0.5f * kThreads);
    EXPECT_EQ(count, 1);
}

TEST_F(BlockTest, TilesMultiplyInAllLayouts) {
    Array<f16> a(16 * 24), b(16 * 16);
    Array<float> c(16 * 20, 1.0f);
    for (int i = 0; i < 16 * 24; ++i) a[i] = kernels::f16_from_float(static_cast<float>(i % 7 - 3));
    for (int i = 0; i < 16 * 16; ++i) b[i] = kernels::f16_from_float(static_cast<float>(i % 5 - 2));
    const auto multiply = [&](Block& block, auto tile_b) {
        Tile<Operand::a, f16> tile_a;
        Accumulator sum;
        block.load_tile(sum, c.data(), 20);
        block.load_tile(tile_a, a.data(), 24);
        block.load_tile(tile_b, b.data(), 16);
        block.multiply_add(sum, tile_a, tile_b);
        sum.transform([](float x) { return 2 * x; });
        Accumulator before;
        block.load_tile(before, c.data(), 20);
        sum.combine(before, [](float x, float y) { return x - 3 * y; });
        block.store_tile(c.data(), sum, 20);
    };
    for (const bool columns : {false, true}) {
        for (int i = 0; i < 16 * 20; ++i) c[i] = static_cast<float>(i);
        run(
            [&](Block& block) {
                if (columns)
                    multiply(block, Tile<Operand::b, f16, Layout::column>{});
                else
                    multiply(block, Tile<Operand::b, f16>{});
            },
            {.threads = 32});
        for (int row = 0; row < 16; ++row) {
            for (int column = 0; column < 16; ++column) {
                const auto before = static_cast<float>(row * 20 + column);
                float sum = before;
                for (int k = 0; k < 16; ++k)
                    sum += to_float(a[row * 24 + k]) * to_float(b[columns ? column * 16 + k : k * 16 + column]);
                ASSERT_EQ(c[row * 20 + column], 2 * sum - 3 * before) << row << ' ' << column;  // small integers: exact
            }
            ASSERT_EQ(c[row * 20 + 16], static_cast<float>(row * 20 + 16));
        }
    }
}

TEST_F(BlockTest, SelfCheckThatGpusCanRunPasses) {
    for (std::uint64_t first = gpu.seed(), i = 0; i < 3; ++i) {
        gpu.reseed(first + i);
        Array<int> wrong(5, -1);
        Array<float> global(5 * 384);
        Array<f16> halves(5 * 768);
        test_kernels::self_check(gpu, wrong.data(), global.data(), halves.data(), 5);
        EXPECT_THAT(wrong, testing::Each(0));
    }
}

std::vector<int> order_of(std::uint64_t seed) {
    Emulator gpu(seed);
    std::vector<int> order(4 * kThreads);
    int next = 0;
    launch(gpu, {.x = 4, .threads = kThreads},
           [&](Block& block) { order[block.atomic_add(&next, 1)] = static_cast<int>(block.global_thread()); });
    return order;
}

TEST(Order, FollowsFromTheSeedAndDiffersBetweenSeedsAndBlocks) {
    const std::vector<int> order = order_of(1);
    EXPECT_EQ(order, order_of(1));
    EXPECT_NE(order, order_of(2));
    std::set<std::vector<int>> blocks;
    for (unsigned i = 0; i < 4; ++i) {
        std::vector<int> block(order.begin() + i * kThreads, order.begin() + (i + 1) * kThreads);
        for (int& thread : block) thread %= kThreads;
        blocks.insert(block);
    }
    EXPECT_EQ(blocks.size(), 4u);
}

/// How many warps have begun when the first one is through its steps, which wait for nobody else.
TEST_F(BlockTest, InHalfOfTheBlocksOneWarpRunsAsFarAheadAsItCan) {
    if (kernels::test::kRaces) GTEST_SKIP() << "warps look at each other without a barrier, on purpose";
    constexpr unsigned kBlocks = 400, kSteps = 20;
    Array<unsigned> ahead(kBlocks, 0);
    run(
        [&](Block& block) {
            const Shared<unsigned> begun = block.shared<unsigned>(block.warps());
            if (block.lane() == 0) begun[block.warp()] = 0u;
            block.sync();
            for (unsigned i = 0; i < kSteps; ++i) {
                block.warp_sync();
                if (block.lane() == 0) begun[block.warp()] = 1u;
            }
            unsigned warps = 0;
            for (unsigned warp = 0; warp < block.warps() && block.lane() == 0; ++warp) warps += begun[warp];
            if (warps == 1) ahead[block.x()] = 1;
            block.sync();
        },
        {.x = kBlocks, .threads = kThreads, .shared_bytes = 4096});
    EXPECT_NEAR(std::accumulate(ahead.begin(), ahead.end(), 0u), kBlocks / 2, kBlocks / 8);  // five deviations
}

TEST_F(BlockTest, OfALargeGridTheEndsAreRunAndSomeBlocksBetween) {
    constexpr std::uint32_t kLast = 0x7ffffffe;
    gpu.run_at_most(40);
    Array<std::uint32_t> places(1000, 0);
    unsigned blocks = 0;
    run(
        [&](Block& block) {
            if (block.thread() == 0) places[block.atomic_add(&blocks, 1u)] = block.x();
        },
        {.x = kLast + 1, .threads = 32});
    EXPECT_GT(blocks, 2 * Emulator::kEnds);
    ASSERT_LE(blocks, 40u);
    const std::set<std::uint32_t> seen(places.begin(), places.begin() + blocks);
    EXPECT_EQ(seen.size(), blocks);
    for (std::uint32_t i = 0; i < Emulator::kEnds; ++i) {
        EXPECT_TRUE(seen.count(i));
        EXPECT_TRUE(seen.count(kLast - i));
    }
}

/// Whoever sees a kernel's note of a bad index sees all of it.
TEST_F(BlockTest, AnIndexErrorIsPublishedWhole) {
    unsigned seen = 0;
    for (std::uint64_t seed = gpu.seed(), i = 0; i < 50; ++i) {
        gpu.reseed(seed + i);
        kernels::IndexError error;
        const IndexCheck check{&error, "index", 5, 3};
        run([&](Block& block) {
            if (block.warp() == 0) {
                EXPECT_EQ(check(block, 7, block.thread()), 0);
                return;
            }
            block.atomic_cas(&error.state, 9u, 9u);  // others go on before it
            if (std::atomic_ref(error.state).load(std::memory_order_acquire) != kernels::IndexError::kComplete) return;
            block.atomic_add(&seen, 1u);
            EXPECT_EQ(error.value, 7);
            EXPECT_EQ(error.bound, 5);
            EXPECT_EQ(error.path, 3u);
            EXPECT_STREQ(error.what, "index");
        });
        EXPECT_EQ(error.state, kernels::IndexError::kComplete);
    }
    EXPECT_GT(seen, 0u);
}

}  // namespace block_test
}  // namespace headroom::simt
