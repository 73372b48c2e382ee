// The standard library's containers on memory of the allocator.
#include <headroom/memory/memory_resource.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <headroom/memory/error.hpp>

namespace headroom::memory::test {
namespace {

TEST(MemoryResourceTest, ServesContainersWithinTheLimit) {
    DeviceMemory memory(make_host_driver(), {.limit = 8 << 20});
    MemoryResource resource(memory, {.category = 5, .path = memory.intern("cache")});
    {
        std::pmr::vector<double> values(10'000, 1.5, &resource);
        std::pmr::map<int, std::pmr::string> names(&resource);
        for (int i = 0; i < 1000; ++i) names[i] = "the number " + std::to_string(i) + ", not a short string";
        EXPECT_GE(memory.statistics().allocated_by_category[5], 80'000u);
        EXPECT_EQ(memory.largest_paths(1).front().first, "cache");
        EXPECT_EQ(values[9'999], 1.5);
        EXPECT_EQ(names[999], "the number 999, not a short string");
        EXPECT_THROW(values.resize(2'000'000), OutOfMemory);
        EXPECT_EQ(values.size(), 10'000u);
    }
    EXPECT_EQ(memory.statistics().allocated, 0u);
}

TEST(MemoryResourceTest, KeepsAnyAlignment) {
    DeviceMemory memory(make_host_driver());
    MemoryResource resource(memory);
    std::mt19937 random(1);
    struct Piece {
        void* data;
        std::size_t bytes;
        std::size_t alignment;
    };
    std::vector<Piece> pieces;
    for (int step = 0; step < 20'000; ++step) {
        if (pieces.size() < 200 && random() % 2 == 0) {
            const std::size_t alignment = std::size_t{1} << random() % 14;
            const std::size_t bytes = random() % 5000;
            void* const data = resource.allocate(bytes, alignment);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(data) % alignment, 0u);
            std::fill_n(static_cast<unsigned char*>(data), bytes, static_cast<unsigned char>(alignment + bytes));
            pieces.push_back({data, bytes, alignment});
        } else if (!pieces.empty()) {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            const auto [data, bytes, alignment] = pieces.back();
            const auto* const begin = static_cast<unsigned char*>(data);
            const auto wanted = static_cast<unsigned char>(alignment + bytes);
            ASSERT_TRUE(std::all_of(begin, begin + bytes, [&](unsigned char c) { return c == wanted; }));
            resource.deallocate(data, bytes, alignment);
            pieces.pop_back();
        }
    }
    for (const auto& [data, bytes, alignment] : pieces) resource.deallocate(data, bytes, alignment);
    EXPECT_EQ(memory.statistics().allocated, 0u);
}

TEST(MemoryResourceTest, IsEqualToOthersOfTheSameMemory) {
    DeviceMemory memory(make_host_driver());
    DeviceMemory another(make_host_driver());
    MemoryResource first(memory), second(memory, {.category = 5}), third(another);
    EXPECT_EQ(first, second);
    EXPECT_NE(first, third);
    EXPECT_NE(first, *std::pmr::new_delete_resource());
    std::pmr::list<int> from({1, 2, 3}, &first);
    const std::pmr::list<int> to(std::move(from), &second);  // takes the nodes over
    EXPECT_EQ(to.size(), 3u);
}

TEST(MemoryResourceTest, RefusesWhatCannotBe) {
    DeviceMemory memory(make_host_driver());
    MemoryResource resource(memory);
    EXPECT_THROW(static_cast<void>(resource.allocate(std::numeric_limits<std::size_t>::max())), OutOfMemory);
    DeviceMemory simulated(make_simulated_host_driver());
    try {
        MemoryResource no(simulated);
        FAIL() << "its addresses can't be written";
    } catch (const Error& error) {
        EXPECT_STREQ(
            error.what(),
            "MemoryResource: the host can't access the memory of simulated host; use one on make_host_driver()");
    }
}

}  // namespace
}  // namespace headroom::memory::test
