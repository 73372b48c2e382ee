// What the allocator advises about a refused request is computed from the report, and helps who takes it.
#include <headroom/memory/out_of_memory.hpp>

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace advice_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Tag kTag{};

MemoryReport report_of(DeviceMemory& memory, std::size_t bytes) {
    try {
        memory.allocate(bytes, 0, kTag);
    } catch (const OutOfMemory& error) {
        return error.report();
    }
    ADD_FAILURE() << "expected OutOfMemory";
    return {};
}

class AdviceTest : public DriverTest {};

TEST_P(AdviceTest, ComesFromTheFigures) {
    DeviceMemory memory(driver(), {.limit = 16 * granule()});
    memory.allocate(4 * granule(), 0, {});
    for (int i = 0; i < 8; ++i) {
        memory.allocate(granule(), 0, {3, memory.intern("blocks." + std::to_string(i) + ".mlp")});
    }
    const MemoryReport report = report_of(memory, 6 * granule());
    EXPECT_EQ(report.usable(), 16 * granule());
    ASSERT_EQ(report.repeated.size(), 1u);
    EXPECT_EQ(report.repeated[0].pattern, "blocks.*");
    EXPECT_EQ(report.repeated[0].count, 8u);
    EXPECT_EQ(report.repeated[0].bytes, 8 * granule());
    EXPECT_EQ(report.advice, "this request would make " + format_bytes(18 * granule()) + " live, " +
                                 format_bytes(2 * granule()) + " too much: free buffers first or ask for at most " +
                                 std::to_string(4 * granule()) + " bytes or set a limit of " +
                                 std::to_string(18 * granule()) + " bytes for it");
    EXPECT_THAT(report.to_string(), HasSubstr(report.advice));
    EXPECT_THAT(report_of(memory, 17 * granule()).advice, HasSubstr("too much: ask for at most"));
}

TEST_P(AdviceTest, HelpsWhoTakesIt) {
    std::mt19937 random(headroom::test::random_seed());
    int in_pieces = 0, too_much = 0;
    for (int round = 0; round < 40; ++round) {
        DeviceMemory memory(driver(), {.limit = 8 * granule() + 7});
        const PoolId pool = memory.open_pool();
        std::vector<Block*> blocks;
        for (std::size_t i = 0; i < 60; ++i) {
            try {
                blocks.push_back(
                    memory.allocate(random() % granule(), random() % 4, kTag, random() % 9 == 0 ? pool : 0).handle);
            } catch (const OutOfMemory&) {
            }
            if (random() % 2 == 0 || blocks.empty()) continue;
            std::swap(blocks[random() % blocks.size()], blocks.back());
            memory.deallocate(blocks.back());
            blocks.pop_back();
        }
        const std::size_t limit = memory.limit();
        for (std::size_t bytes = 9 * granule(); bytes > granule(); bytes -= granule() / 2) {
            MemoryReport report;
            try {
                memory.deallocate(memory.allocate(bytes, 0, kTag).handle);
                continue;
            } catch (const OutOfMemory& error) {
                report = error.report();
            }
            const bool pieces = report.statistics.allocated + report.rounded <= report.usable();
            ++(pieces ? in_pieces : too_much);
            EXPECT_EQ(report.advice.find("fragmented") != std::string::npos, pieces) << report.advice;
            if (const std::size_t most = report.largest_obtainable) {
                EXPECT_THAT(report.advice, HasSubstr("ask for at most " + std::to_string(most) + " bytes"));
                EXPECT_NO_THROW(memory.deallocate(memory.allocate(most, 0, kTag).handle));
            }
            const std::size_t enough = report.request_limit();
            if (enough > properties().total_bytes) continue;
            EXPECT_THAT(report.advice, EndsWith("set a limit of " + std::to_string(enough) + " bytes for it"));
            memory.set_limit(enough);
            EXPECT_NO_THROW(memory.deallocate(memory.allocate(bytes, 0, kTag).handle)) << bytes;
            memory.set_limit(limit);
        }
        for (Block* block : blocks) memory.deallocate(block);
        memory.close_pool(pool);
        EXPECT_NO_THROW(memory.deallocate(memory.allocate(6 * granule(), 0, kTag).handle)) << "buffers were given back";
    }
    EXPECT_GT(in_pieces, 0);
    EXPECT_GT(too_much, 0);
}

TEST_P(AdviceTest, CountsWholePages) {
    DeviceMemory memory(driver(), {.limit = 8 * granule() + granule() / 2});
    memory.allocate(4 * granule(), 0, {});
    const MemoryReport report = report_of(memory, 4 * granule() + unit());
    EXPECT_THAT(report.advice, HasSubstr(format_bytes(unit()) + " too much")) << "no pieces";
}

INSTANTIATE_TEST_SUITE_P(Drivers, AdviceTest, all_drivers(), driver_name);

}  // namespace advice_test
}  // namespace headroom::memory::test
