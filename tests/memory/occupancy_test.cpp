// Runs of last occupants, against one entry per part.
#include <headroom/memory/plan/occupancy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace headroom {
namespace {

std::vector<std::uint32_t> occupants(const Occupancy& occupancy, std::uint32_t first, std::uint32_t last) {
    std::vector<std::uint32_t> found;
    occupancy.visit(first, last, [&](std::uint32_t occupant) {
        found.push_back(occupant);
        return true;
    });
    return found;
}

TEST(Occupancy, IsOfNobodyAtFirst) {
    EXPECT_EQ(occupants(Occupancy(5), 1, 4), std::vector<std::uint32_t>{Occupancy::kNobody});
    EXPECT_TRUE(occupants(Occupancy(5), 3, 3).empty());
    EXPECT_TRUE(occupants(Occupancy(0), 0, 0).empty());
}

TEST(Occupancy, CutsRunsAndJoinsThem) {
    Occupancy occupancy(10);
    occupancy.take(0, 10, 1);
    occupancy.take(3, 5, 2);
    EXPECT_EQ(occupants(occupancy, 0, 10), (std::vector<std::uint32_t>{1, 2, 1}));
    EXPECT_EQ(occupants(occupancy, 4, 5), (std::vector<std::uint32_t>{2}));
    EXPECT_EQ(occupants(occupancy, 9, 10), (std::vector<std::uint32_t>{1}));
    occupancy.take(2, 9, 3);
    EXPECT_EQ(occupants(occupancy, 0, 10), (std::vector<std::uint32_t>{1, 3, 1}));
}

TEST(Occupancy, StopsWhenAsked) {
    Occupancy occupancy(4);
    occupancy.take(1, 2, 7);
    int calls = 0;
    EXPECT_FALSE(occupancy.visit(0, 4, [&](std::uint32_t occupant) {
        ++calls;
        return occupant != 7;
    }));
    EXPECT_EQ(calls, 2);
}

TEST(Occupancy, AgreesWithOneEntryPerPart) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (const std::uint32_t parts : {1u, 63u, 64u, 65u, 700u, 20'000u}) {
        Occupancy occupancy(parts);
        std::vector<std::uint32_t> expected(parts, Occupancy::kNobody);
        for (std::uint32_t step = 0; step < 3000; ++step) {
            const std::uint32_t first = random() % parts;
            const std::uint32_t width = 1 + random() % (1u << random() % 15);
            const std::uint32_t last = std::min(parts, first + width);
            std::vector<std::uint32_t> runs;
            for (std::uint32_t i = first; i < last; ++i) {
                if (i == first || expected[i] != expected[i - 1]) runs.push_back(expected[i]);
            }
            // Neighbouring runs may have the same occupant: what lay between them was never kept apart.
            std::vector<std::uint32_t> found = occupants(occupancy, first, last);
            found.erase(std::unique(found.begin(), found.end()), found.end());
            ASSERT_EQ(found, runs) << parts << " parts, step " << step;
            const std::uint32_t occupant = random() % 4 ? step : random() % 10;
            std::fill(expected.begin() + first, expected.begin() + last, occupant);
            occupancy.take(first, last, occupant);
        }
    }
}

}  // namespace
}  // namespace headroom
