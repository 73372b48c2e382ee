// A refused request changes nothing, says exactly how things stand, and the program goes on.
#include <headroom/memory/out_of_memory.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <sstream>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::testing {
namespace {

constexpr Tag kTag{Category::activations, 0};

MemoryReport report_of(DeviceMemory& memory, std::size_t bytes, Tag tag) {
    try {
        memory.allocate(bytes, 0, tag);
    } catch (const OutOfMemory& error) {
        return error.report();
    }
    ADD_FAILURE() << "expected OutOfMemory";
    return {};
}

/// The figure in bytes on the line of the report that starts, after blanks, with `label`.
std::size_t figure(const std::string& text, const std::string& label) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t start = line.find_first_not_of(' ');
        if (start == std::string::npos || line.compare(start, label.size() + 1, label + " ") != 0) continue;
        return std::stoull(line.substr(start + label.size()));
    }
    ADD_FAILURE() << "no line " << label << " in\n" << text;
    return 0;
}

class OutOfMemoryTest : public DriverTest {};

TEST_P(OutOfMemoryTest, ChangesNoFigureAndNoContents) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const Allocation kept = memory.allocate(granule() + 5, 0, kTag);
    if (properties().touchable) std::memset(kept.data, 42, granule() + 5);
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    const MemoryStatistics before = memory.statistics();
    EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
    EXPECT_EQ(memory.statistics(), before);
    if (properties().touchable) {
        EXPECT_EQ(kept.data[granule() + 4], std::byte{42});
    }
    EXPECT_NO_THROW(memory.allocate(2 * granule(), 0, kTag));
}

TEST_P(OutOfMemoryTest, ReportsTheRequestAndTheBudget) {
    DeviceMemory memory(driver(), {.limit = 4 * granule() + 3});
    const PathId path = memory.intern("blocks.3.mlp");
    memory.allocate(granule(), 0, {Category::parameters, path});
    const MemoryReport report = report_of(memory, 5 * granule() + 1, {Category::gradients, path});
    EXPECT_EQ(report.device, properties().name);
    EXPECT_EQ(report.requested, 5 * granule() + 1);
    EXPECT_EQ(report.rounded, 5 * granule() + unit());
    EXPECT_EQ(report.tag.category, Category::gradients);
    EXPECT_EQ(report.path, "blocks.3.mlp");
    EXPECT_EQ(report.limit, 4 * granule() + 3);
    EXPECT_EQ(report.device_total, properties().total_bytes);
    EXPECT_LE(report.device_free, properties().total_bytes - granule());
    EXPECT_EQ(report.statistics, memory.statistics());
    EXPECT_EQ(report.largest_paths, memory.largest_paths());
}

TEST_P(OutOfMemoryTest, ReportsTheLargestFreeBlock) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const Allocation first = memory.allocate(granule(), 0, kTag);
    const Allocation second = memory.allocate(granule(), 1, kTag);
    memory.allocate(unit(), 0, kTag);
    const Allocation third = memory.allocate(granule() / 2, 0, kTag);
    memory.allocate(unit(), 0, kTag);
    memory.deallocate(first.handle);
    memory.deallocate(second.handle);
    memory.deallocate(third.handle);
    EXPECT_EQ(report_of(memory, 5 * granule(), kTag).largest_free_block, 2 * granule());
}

TEST_P(OutOfMemoryTest, HasLinesThatAddUp) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    for (std::size_t i = 0; i < 15; ++i) {
        memory.allocate((i + 1) * unit() - 3, 0,
                        {static_cast<Category>(i % kCategoryCount), memory.intern("layer." + std::to_string(i))});
    }
    const MemoryReport report = report_of(memory, 5 * granule(), kTag);
    const std::string text = report.text();
    std::size_t categories = 0;
    for (const std::string_view category : kCategoryNames) categories += figure(text, std::string(category));
    EXPECT_EQ(categories, figure(text, "live"));
    EXPECT_EQ(figure(text, "live") + figure(text, "cached, in free blocks"), figure(text, "reserved"));
    EXPECT_EQ(figure(text, "free") + figure(text, "of others") + figure(text, "reserved"),
              figure(text, "Device, total"));
    EXPECT_EQ(figure(text, "not reserved yet") + figure(text, "reserved"), figure(text, "Limit"));
    std::size_t paths = figure(text, "(all others)");
    EXPECT_EQ(report.largest_paths.size(), 10u);
    for (const auto& [path, bytes] : report.largest_paths) {
        EXPECT_EQ(figure(text, path), bytes);
        paths += bytes;
    }
    EXPECT_EQ(paths, figure(text, "live"));
}

TEST_P(OutOfMemoryTest, LetsAProgramHalveAndGoOn) {
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    int refused = 0;
    for (int cycle = 0; cycle < 1000; ++cycle) {
        std::vector<Block*> blocks;
        std::size_t batch = 64 * granule();
        while (true) {
            try {
                blocks.push_back(memory.allocate(batch / 8 * 3, 0, kTag).handle);
                blocks.push_back(memory.allocate(batch / 8 * 5, 0, kTag).handle);
                break;
            } catch (const OutOfMemory&) {
                ++refused;
                for (Block* block : blocks) memory.deallocate(block);
                blocks.clear();
                batch /= 2;
            }
        }
        EXPECT_EQ(batch, 8 * granule());
        for (Block* block : blocks) memory.deallocate(block);
    }
    EXPECT_EQ(refused, 3000);
    EXPECT_EQ(memory.statistics().allocated, 0u);
}

INSTANTIATE_TEST_SUITE_P(Drivers, OutOfMemoryTest, all_drivers(), driver_name);

TEST(OutOfMemoryMessage, IsOneLineThatSaysWhatToDo) {
    DeviceMemory limited(make_simulated_host_driver(), {.limit = 64'000'000});
    try {
        limited.allocate(100'000'000, 0, {Category::activations, limited.intern("blocks.3")});
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(
            error.what(),
            "out of memory on simulated host: 100.0 MB for activations of blocks.3 do not fit into the limit of "
            "64.0 MB (0 B live, 0 B reserved); make the batch smaller, recompute activations or raise the limit");
    }
    DeviceMemory unlimited(make_simulated_host_driver());
    try {
        unlimited.allocate(std::size_t{1} << 60, 0, {Category::inputs, 0});
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::EndsWith("make the batch smaller or recompute activations"));
    }
}

TEST(FormatBytes, IsExactBelowTenThousandAndRoundsAbove) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(9'999), "9999 B");
    EXPECT_EQ(format_bytes(10'000), "10.0 kB");
    EXPECT_EQ(format_bytes(12'345'678), "12.3 MB");
    EXPECT_EQ(format_bytes(999'960), "1.0 MB");
    EXPECT_EQ(format_bytes(2'000'000'000), "2.0 GB");
    EXPECT_EQ(format_bytes(SIZE_MAX), "18.4 EB");
}

}  // namespace
}  // namespace headroom::testing
