// Every byte belongs to a category and a module path, and the figures add up.
#include <headroom/memory/device_memory.hpp>

#include <numeric>

#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::memory::test {
namespace accounting_test {

enum : CategoryId { kParameters, kGradients, kActivations, kWorkspace, kInputs };

std::size_t of(const std::array<std::size_t, kCategoryCount>& figures, CategoryId category) {
    return figures[category];
}

std::size_t sum(const std::array<std::size_t, kCategoryCount>& figures) {
    return std::accumulate(figures.begin(), figures.end(), std::size_t{0});
}

class AccountingTest : public DriverTest {};

TEST_P(AccountingTest, CountsRequestedAndRoundedBytes) {
    DeviceMemory memory(driver());
    const Allocation one = memory.allocate(1, 0, {kInputs, 0});
    memory.allocate(unit() + 1, 0, {kInputs, 0});
    MemoryStatistics statistics = memory.statistics();
    EXPECT_EQ(statistics.requested, unit() + 2);
    EXPECT_EQ(statistics.allocated, 3 * unit());
    EXPECT_EQ(statistics.allocations, 2u);
    memory.deallocate(one.handle);
    statistics = memory.statistics();
    EXPECT_EQ(statistics.requested, unit() + 1);
    EXPECT_EQ(statistics.allocated, 2 * unit());
    EXPECT_EQ(statistics.peak_allocated, 3 * unit());
    EXPECT_EQ(statistics.allocations, 2u);
}

TEST_P(AccountingTest, SplitsLiveAndPeakBytesByCategory) {
    DeviceMemory memory(driver());
    const Allocation weights = memory.allocate(4 * unit(), 0, {kParameters, 0});
    const Allocation activations = memory.allocate(10 * unit(), 0, {kActivations, 0});
    memory.deallocate(activations.handle);
    memory.allocate(3 * unit(), 0, {kWorkspace, 0});
    memory.allocate(2 * unit(), 0, {});
    const MemoryStatistics statistics = memory.statistics();
    EXPECT_EQ(of(statistics.allocated_by_category, kParameters), 4 * unit());
    EXPECT_EQ(of(statistics.allocated_by_category, kActivations), 0u);
    EXPECT_EQ(of(statistics.allocated_by_category, kWorkspace), 3 * unit());
    EXPECT_EQ(of(statistics.allocated_by_category, kNoCategory), 2 * unit());
    EXPECT_EQ(of(statistics.at_peak_by_category, kActivations), 10 * unit());
    EXPECT_EQ(of(statistics.at_peak_by_category, kWorkspace), 0u);
    EXPECT_EQ(sum(statistics.allocated_by_category), statistics.allocated);
    EXPECT_EQ(sum(statistics.at_peak_by_category), statistics.peak_allocated);
    memory.deallocate(weights.handle);
    EXPECT_EQ(sum(memory.statistics().allocated_by_category), memory.statistics().allocated);
}

TEST_P(AccountingTest, ResetPeakStartsFromThePresent) {
    DeviceMemory memory(driver());
    memory.allocate(2 * unit(), 0, {kParameters, 0});
    memory.deallocate(memory.allocate(3 * granule(), 0, {kActivations, 0}).handle);
    EXPECT_EQ(memory.statistics().peak_allocated, 3 * granule() + 2 * unit());
    memory.trim();
    memory.reset_peak();
    const MemoryStatistics statistics = memory.statistics();
    EXPECT_EQ(statistics.peak_allocated, 2 * unit());
    EXPECT_EQ(statistics.peak_reserved, statistics.reserved);
    EXPECT_EQ(statistics.at_peak_by_category, statistics.allocated_by_category);
}

TEST_P(AccountingTest, NumbersAModulePathOnce) {
    DeviceMemory memory(driver());
    EXPECT_EQ(memory.intern(""), 0u);
    const PathId mlp = memory.intern("blocks.0.mlp");
    EXPECT_NE(mlp, 0u);
    EXPECT_EQ(memory.intern("blocks.0.mlp"), mlp);
    EXPECT_NE(memory.intern("blocks.1.mlp"), mlp);
    for (int i = 0; i < 1000; ++i) memory.intern("layer." + std::to_string(i));
    EXPECT_EQ(memory.intern("blocks.0.mlp"), mlp);
    EXPECT_EQ(memory.path(mlp), "blocks.0.mlp");
}

TEST_P(AccountingTest, ListsTheModulesThatHoldMost) {
    DeviceMemory memory(driver());
    const PathId small = memory.intern("small");
    const PathId large = memory.intern("large");
    const PathId gone = memory.intern("gone");
    memory.allocate(unit(), 0, {kParameters, small});
    memory.allocate(unit(), 0, {kGradients, small});
    memory.allocate(5 * unit(), 0, {kActivations, large});
    memory.allocate(unit(), 0, {kInputs, 0});
    memory.deallocate(memory.allocate(granule(), 0, {kActivations, gone}).handle);
    using Paths = std::vector<std::pair<std::string, std::size_t>>;
    EXPECT_EQ(memory.largest_paths(), (Paths{{"large", 5 * unit()}, {"small", 2 * unit()}, {"", unit()}}));
    EXPECT_EQ(memory.largest_paths(1), (Paths{{"large", 5 * unit()}}));
}

TEST_P(AccountingTest, ListsTheModulesThatHeldMostAtThePeak) {
    DeviceMemory memory(driver());
    const PathId first = memory.intern("first");
    const PathId second = memory.intern("second");
    using Paths = std::vector<std::pair<std::string, std::size_t>>;
    EXPECT_TRUE(memory.peak().largest_paths.empty());
    const Allocation one = memory.allocate(3 * unit(), 0, {kActivations, first});
    const Allocation two = memory.allocate(5 * unit(), 1, {kGradients, second});
    EXPECT_EQ(memory.peak().largest_paths, memory.largest_paths());
    memory.deallocate(two.handle);
    memory.allocate(4 * unit(), 1, {kInputs, memory.intern("late")});
    const Paths expected{{"second", 5 * unit()}, {"first", 3 * unit()}};
    EXPECT_EQ(memory.peak().largest_paths, expected);
    EXPECT_EQ(memory.peak(1).largest_paths, Paths{expected[0]});
    memory.allocate(unit(), 0, {kInputs, first});
    EXPECT_EQ(memory.peak().largest_paths, expected) << "as many bytes as at the peak are no new one";
    memory.allocate(unit(), 0, {kInputs, first, memory.intern("gelu")});
    EXPECT_EQ(memory.peak().largest_paths, (Paths{{"first", 5 * unit()}, {"late", 4 * unit()}}));
    const MemoryPeak peak = memory.peak();
    const MemoryStatistics statistics = memory.statistics();
    EXPECT_EQ(peak.allocated, 9 * unit());
    EXPECT_EQ(peak.reserved, statistics.peak_reserved);
    EXPECT_EQ(peak.by_category, statistics.at_peak_by_category);
    EXPECT_EQ(peak.purpose, "first (gelu)") << "of the request that made the peak";
    memory.deallocate(one.handle);
    memory.reset_peak();
    EXPECT_EQ(memory.peak().largest_paths, memory.largest_paths());
    EXPECT_EQ(memory.peak().purpose, "");
}

TEST_P(AccountingTest, CountsHowOftenTheHostWaited) {
    DeviceMemory memory(driver());
    memory.deallocate(memory.allocate(granule(), 0, {}).handle);
    memory.allocate(granule(), 1, {});
    EXPECT_EQ(memory.statistics().synchronizations, 0u);
    memory.deallocate(memory.allocate(granule(), 0, {}).handle);
    memory.trim();
    EXPECT_EQ(memory.statistics().synchronizations, static_cast<std::uint64_t>(log().synchronizes));
    EXPECT_EQ(memory.statistics().synchronizations > 0, asynchronous());
}

INSTANTIATE_TEST_SUITE_P(Drivers, AccountingTest, all_drivers(), driver_name);

}  // namespace accounting_test
}  // namespace headroom::memory::test
