// The index of free blocks against a search through all of them.
#include <headroom/memory/allocator/internal/free_index.hpp>
#include <headroom/tests/support/seed.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace headroom::memory {
namespace free_index_test {

constexpr std::size_t kUnit = 64;

Block block_of(std::size_t size) {
    Block block;
    block.size = size;
    return block;
}

TEST(FreeIndex, FindsNothingWhenEmpty) {
    const FreeIndex index(kUnit);
    EXPECT_EQ(index.find(kUnit), nullptr);
    EXPECT_EQ(index.find_any(kUnit), nullptr);
    EXPECT_EQ(index.find(std::size_t{1} << 46), nullptr);
    EXPECT_EQ(index.largest(), nullptr);
}

TEST(FreeIndex, FindsTheExactSizeAtEveryMagnitude) {
    for (std::size_t size = kUnit; size < std::size_t{1} << 46; size = size * 3 / 2 / kUnit * kUnit + kUnit) {
        FreeIndex index(kUnit);
        Block exact = block_of(size);
        Block larger = block_of(4 * size);
        index.insert(&exact);
        index.insert(&larger);
        EXPECT_EQ(index.find(size), &exact) << size;
        EXPECT_EQ(index.find(size + kUnit), &larger) << size;
        index.remove(&exact);
        EXPECT_EQ(index.find(size), &larger) << size;
        EXPECT_EQ(index.find(4 * size + kUnit), nullptr) << size;
    }
}

TEST(FreeIndex, LooksDeepIntoAClassOnlyWhenAsked) {
    FreeIndex index(kUnit);
    const std::size_t size = kUnit << 16;  // the classes are 1024 units wide here
    Block fits = block_of(size + 8 * kUnit);
    index.insert(&fits);
    std::vector<Block> others(20, block_of(size));
    for (Block& block : others) index.insert(&block);
    EXPECT_EQ(index.find(size + kUnit), nullptr);
    EXPECT_EQ(index.find_any(size + kUnit), &fits);
}

TEST(FreeIndex, VisitsAllFromASizeOnWhileTheyAreTakenOut) {
    FreeIndex index(kUnit);
    std::vector<Block> blocks;
    for (std::size_t i = 1; i <= 300; ++i) blocks.push_back(block_of(i * kUnit));
    for (Block& block : blocks) index.insert(&block);
    std::vector<std::size_t> seen;
    index.for_each_from(100 * kUnit, [&](Block* block) {
        index.remove(block);
        seen.push_back(block->size / kUnit);
        block->size = kUnit;  // what is left of it
        index.insert(block);
        return seen.size() < 150;
    });
    EXPECT_EQ(seen.size(), 150u) << "stops when it is told to";
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "visited twice";
    EXPECT_GE(seen.front(), 100u);
    std::size_t rest = 0;
    index.for_each_from(100 * kUnit, [&](Block* block) {
        EXPECT_GE(block->size, 100 * kUnit);
        ++rest;
        return true;
    });
    EXPECT_EQ(rest, 51u);
}

TEST(FreeIndex, AgreesWithASearchThroughAllBlocks) {
    std::mt19937 random(test::random_seed());
    const auto random_size = [&] { return ((random() % 1000 + 1) << random() % 20) * kUnit; };
    FreeIndex index(kUnit);
    std::vector<Block> blocks(500);
    std::vector<Block*> inside;
    std::vector<Block*> outside;
    for (Block& block : blocks) outside.push_back(&block);
    for (int step = 0; step < 50'000; ++step) {
        auto& from = random() % 2 ? inside : outside;
        if (!from.empty()) {
            std::swap(from[random() % from.size()], from.back());
            Block* block = from.back();
            from.pop_back();
            if (&from == &inside) {
                index.remove(block);
                outside.push_back(block);
            } else {
                block->size = random_size();
                index.insert(block);
                inside.push_back(block);
            }
        }
        const std::size_t wanted = random_size();
        std::size_t best = SIZE_MAX;
        std::size_t largest = 0;
        for (const Block* block : inside) {
            if (block->size >= wanted) best = std::min(best, block->size);
            largest = std::max(largest, block->size);
        }
        const Block* found = index.find_any(wanted);
        ASSERT_EQ(found != nullptr, best != SIZE_MAX);
        if (found) {
            ASSERT_GE(found->size, wanted);
            // A class is at most 1/64 wide.
            ASSERT_LE(static_cast<double>(found->size), static_cast<double>(best) * (1 + 1.0 / 64));
        }
        const Block* quick = index.find(wanted);
        ASSERT_TRUE(!quick || quick->size >= wanted);
        ASSERT_EQ(index.largest() ? index.largest()->size : 0, largest);
    }
}

}  // namespace free_index_test
}  // namespace headroom::memory
