// A refused request changes nothing, says exactly how things stand, and the program goes on.
#include <headroom/memory/out_of_memory.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include <headroom/memory/device_memory.hpp>
#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/memory/fuzz_player.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace out_of_memory_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Tag kTag{};

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

TEST(MemoryReport, LeavesTheReserveToOthersOrWhatTheyUse) {
    MemoryReport report;
    report.device_total = 1000;
    report.device_free = 300;
    report.statistics.reserved = 500;
    EXPECT_EQ(report.others(), 200u);
    EXPECT_EQ(report.available(), 800u);
    report.reserve = 199;
    EXPECT_EQ(report.available(), 800u);
    report.reserve = 250;
    EXPECT_EQ(report.available(), 750u);
}

/// Every line of the text is the sum of those below it that it is made of.
void check_sums(const MemoryReport& report) {
    const std::string text = report.to_string();
    std::size_t categories = 0;
    for (const NamedCategory& category : report.categories) categories += figure(text, category.name);
    if (text.find("(no category)") != text.npos) categories += figure(text, "(no category)");
    EXPECT_EQ(categories, figure(text, "live"));
    std::size_t reserved = figure(text, "live");
    for (const char* reason : {"cached, in free blocks", "pending on other streams", "held for graphs"}) {
        reserved += figure(text, reason);
    }
    EXPECT_EQ(reserved, figure(text, "reserved"));
    EXPECT_EQ(figure(text, "free") + figure(text, "used by others") + figure(text, "reserved"),
              figure(text, "Device, total"));
    EXPECT_EQ(figure(text, "not reserved yet") + figure(text, "reserved"), figure(text, "Limit"));
    std::size_t paths = figure(text, "(all others)");
    for (const auto& [path, bytes] : report.largest_paths) {
        EXPECT_EQ(figure(text, path), bytes);
        paths += bytes;
    }
    EXPECT_LE(report.largest_paths.size(), 10u);
    EXPECT_EQ(paths, figure(text, "live"));
}

class OutOfMemoryTest : public DriverTest {};

TEST_P(OutOfMemoryTest, ChangesNoFigureAndNoContents) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const Allocation kept = memory.allocate(granule() + 5, 0, kTag);
    if (properties().touchable) std::memset(kept.data, 42, granule() + 5);
    memory.deallocate(memory.allocate(granule(), 0, kTag).handle);
    const MemoryStatistics before = memory.statistics();
    EXPECT_THROW(memory.allocate(3 * granule(), 0, kTag), OutOfMemory);
    MemoryStatistics after = memory.statistics();
    EXPECT_EQ(std::exchange(after.refusals, 0), 1u);
    EXPECT_EQ(after, before) << "not even the driver is asked for what can't be had";
    if (properties().touchable) {
        EXPECT_EQ(kept.data[granule() + 4], std::byte{42});
    }
    EXPECT_NO_THROW(memory.allocate(2 * granule(), 0, kTag));
}

TEST_P(OutOfMemoryTest, ReportsTheRequestAndTheBudget) {
    DeviceMemory memory(driver(), {.limit = 4 * granule() + 3});
    const PathId path = memory.intern("blocks.3.mlp");
    memory.allocate(granule(), 0, {.category = 0, .path = path});
    const MemoryReport report = report_of(memory, 5 * granule() + 1, {.category = 1, .path = path});
    EXPECT_EQ(report.device, properties().name);
    EXPECT_EQ(report.requested, 5 * granule() + 1);
    EXPECT_EQ(report.rounded, 5 * granule() + unit());
    EXPECT_EQ(report.tag.category, 1);
    EXPECT_EQ(report.path, "blocks.3.mlp");
    EXPECT_EQ(report.limit, 4 * granule() + 3);
    EXPECT_EQ(report.device_total, properties().total_bytes);
    EXPECT_LE(report.device_free, properties().total_bytes - granule());
    MemoryStatistics now = memory.statistics();
    EXPECT_EQ(std::exchange(now.refusals, 0), 1u);
    EXPECT_EQ(report.statistics, now);
    EXPECT_EQ(report.largest_paths, memory.largest_paths());
}

TEST_P(OutOfMemoryTest, ReportsTheLargestObtainableBlock) {
    DeviceMemory memory(driver(), {.limit = 4 * granule()});
    const Allocation first = memory.allocate(granule(), 0, kTag);
    const Allocation second = memory.allocate(granule(), 1, kTag);
    memory.allocate(unit(), 0, kTag);
    const Allocation third = memory.allocate(granule() / 2, 0, kTag);
    memory.allocate(unit(), 0, kTag);
    memory.deallocate(first.handle);
    memory.deallocate(second.handle);
    memory.deallocate(third.handle);
    const MemoryReport report = report_of(memory, 5 * granule(), kTag);
    // The fourth page moves, or is made, behind the one with live blocks, whose end is free, too.
    const std::size_t most = 3 * granule() + granule() / 2 - 2 * unit();
    EXPECT_EQ(report.largest_obtainable, most);
    EXPECT_THAT(report_of(memory, most + 1, kTag).advice,
                HasSubstr(" live, but free memory is fragmented: free buffers first or ask for at most " +
                          std::to_string(most) + " bytes or set a limit of "));
    EXPECT_THROW(memory.allocate(most + 1, 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.allocate(most, 0, kTag));
}

TEST(LargestObtainable, IsExactWhereTheAddressesAreNoWholePages) {
    constexpr std::size_t kPage = 4096;
    DeviceMemory memory(make_simulated_driver({.properties = {.name = "odd addresses",
                                                              .granularity = kPage,
                                                              .alignment = 64,
                                                              .total_bytes = 8 * kPage,
                                                              .address_bytes = 2 * kPage + kPage / 2}}));
    EXPECT_EQ(report_of(memory, 6 * kPage, kTag).largest_obtainable, 2 * kPage);
    EXPECT_THROW(memory.allocate(2 * kPage + 1, 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.allocate(2 * kPage, 0, kTag));
}

TEST_P(OutOfMemoryTest, HasLinesThatAddUp) {
    std::mt19937 random(headroom::test::random_seed());
    for (int round = 0; round < 20; ++round) {
        DeviceMemory memory(driver(), {.limit = 8 * granule() + 7, .categories = {{"weights"}, {"states"}}});
        const PoolId pool = memory.open_pool();
        std::vector<Block*> blocks;
        for (std::size_t i = 0; i < 60; ++i) {
            const Tag tag{static_cast<CategoryId>(i % kCategoryCount),
                          memory.intern("layer." + std::to_string(i % 15))};
            try {
                blocks.push_back(
                    memory.allocate(random() % granule(), random() % 4, tag, random() % 3 == 0 ? pool : 0).handle);
            } catch (const OutOfMemory&) {
                continue;
            }
            if (random() % 3 == 0) memory.record_use(blocks.back(), random() % 4);
            std::swap(blocks[random() % blocks.size()], blocks.back());
            if (random() % 2 == 0) {
                memory.deallocate(blocks.back());
                blocks.pop_back();
            }
        }
        check_sums(report_of(memory, 9 * granule(), kTag));
        for (Block* block : blocks) memory.deallocate(block);
        check_sums(report_of(memory, 9 * granule(), kTag));
    }
}

TEST_P(OutOfMemoryTest, SaysWhatIsHeldBackAndWhy) {
    if (!asynchronous()) GTEST_SKIP() << "no work is queued";
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    std::vector<Block*> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(memory.allocate(granule(), i / 3, kTag).handle);
    for (const std::size_t i : {0, 1, 3}) memory.deallocate(blocks[i]);
    const MemoryReport report = report_of(memory, 9 * granule(), kTag);
    EXPECT_EQ(report.pending, granule()) << "one was freed by the other stream";
    EXPECT_EQ(report.cached, 2 * granule());
    EXPECT_EQ(report.largest_obtainable, 5 * granule()) << "what is pending can be waited for";
    EXPECT_NO_THROW(memory.allocate(5 * granule(), 0, kTag));
}

TEST_P(OutOfMemoryTest, SaysWhatTheWholeProgramNeedsIfThatIsKnown) {
    DeviceMemory memory(driver(), {.limit = 8 * granule(), .categories = {{"weights"}, {"states"}}});
    memory.allocate(3 * granule(), 0, {.category = 1, .path = memory.intern("layer.3")});
    MemoryReport report = report_of(memory, 9 * granule(), kTag);
    report.whole = memory.peak();
    report.whole->allocated = 9 * granule();
    report.whole_limit = 5 * granule();
    report.advice = "do it";
    const std::string text = report.to_string();
    const std::string rest = text.substr(text.find("The whole program without a limit: its peak is at states"));
    EXPECT_EQ(figure(rest, "live at the peak"), 9 * granule());
    EXPECT_EQ(figure(rest, "states"), 3 * granule());
    EXPECT_EQ(figure(rest, "reserved"), 3 * granule());
    EXPECT_EQ(figure(rest, "a limit that suffices"), 5 * granule());
    EXPECT_EQ(figure(rest, "layer.3"), 3 * granule());
    EXPECT_THAT(OutOfMemory(report).what(),
                EndsWith(" reserved); the whole program needs " + format_bytes(9 * granule()) +
                         " at once, at states of layer.3; do it"));
    report.whole->allocated = 8 * granule();
    EXPECT_EQ(
        std::string(OutOfMemory(report).what()).find(", which would fit if free memory were not fragmented; do it") !=
            std::string::npos,
        report.rehearsal);
}

TEST_P(OutOfMemoryTest, ReportsRequestsThatCannotBeRounded) {
    DeviceMemory memory(driver(), {.limit = 8 * granule()});
    memory.allocate(granule(), 0, kTag);
    const std::size_t all = std::numeric_limits<std::size_t>::max();
    const MemoryReport report = report_of(memory, all, kTag);
    EXPECT_EQ(report.rounded, all);
    EXPECT_EQ(report.request_limit(), all);
    EXPECT_THAT(report.advice, EndsWith(" too much: ask for at most " + std::to_string(7 * granule()) + " bytes"));
}

TEST_P(OutOfMemoryTest, LetsAProgramHalveAndGoOn) {
    std::mt19937 random(headroom::test::random_seed());
    constexpr std::size_t kLimit = 16;
    DeviceMemory memory(driver(), {.limit = kLimit * granule()});
    std::map<std::uintptr_t, int> pages;  // with small blocks that stay for a while
    std::vector<Allocation> small;
    const auto count_pages = [&](const Allocation& block, int by) {
        const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
        for (auto page = begin / granule(); page <= (begin + block.bytes - 1) / granule(); ++page) {
            if ((pages[page] += by) == 0) pages.erase(page);
        }
    };
    int refused = 0;
    for (int cycle = 0; cycle < 1000; ++cycle) {
        std::vector<Block*> blocks;
        std::size_t batch = 64;
        while (true) {
            try {
                blocks.push_back(memory.allocate(batch * granule() / 8 * 3, random() % 2, kTag).handle);
                blocks.push_back(memory.allocate(batch * granule() / 8 * 5, random() % 2, kTag).handle);
                break;
            } catch (const OutOfMemory&) {
                ++refused;
                for (Block* block : blocks) memory.deallocate(block);
                blocks.clear();
                ASSERT_GT(batch + 2, kLimit - pages.size()) << "cycle " << cycle;
                batch /= 2;
                ASSERT_GT(batch, 0u);
            }
        }
        // Fragments while the batch is there, so that they lie behind it, and others go.
        while (small.size() > 6 || (!small.empty() && random() % 3 == 0)) {
            std::swap(small[random() % small.size()], small.back());
            count_pages(small.back(), -1);
            memory.deallocate(small.back().handle);
            small.pop_back();
        }
        try {
            small.push_back(memory.allocate(random() % (granule() / 2), random() % 2, kTag));
            count_pages(small.back(), 1);
        } catch (const OutOfMemory&) {
        }
        for (Block* block : blocks) memory.deallocate(block);
    }
    EXPECT_GE(refused, 2000);
    for (const Allocation& block : small) memory.deallocate(block.handle);
    EXPECT_EQ(memory.statistics().allocated, 0u);
}

TEST_P(OutOfMemoryTest, IsThrownOnlyWhenItIsTrue) {
    const std::uint64_t seed = headroom::test::random_seed();
    for (std::uint64_t round = 0; round < 12 && !HasFailure(); ++round) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed + round);
        FuzzPlayer player(GetParam().make(),
                          {.seed = seed + round, .streams = 1 + static_cast<StreamId>(round % 4), .limit = 14});
        for (int state = 0; state < 30 && !HasFailure(); ++state) {
            for (int step = 0; step < 50; ++step) player.step();
            player.expect_what_there_is_room_for();
        }
        player.finish();
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, OutOfMemoryTest, all_drivers(), driver_name);

TEST(OutOfMemoryMessage, IsOneLineThatSaysWhatToDo) {
    DeviceMemory limited(make_simulated_host_driver(), {.limit = 64'000'000});
    try {
        limited.allocate(100'000'000, 0, {.path = limited.intern("cache.3")});
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(
            error.what(),
            "out of memory in a rehearsal on simulated host: 100.0 MB for cache.3 do not fit into the limit of "
            "64.0 MB, in whole pages 62.9 MB (0 B live, 0 B reserved); this request would make 100.0 MB live, 37.1 "
            "MB too much: ask for at most 62914560 bytes or set a limit of 100663296 bytes for it");
    }
    DeviceMemory unlimited(make_simulated_host_driver());
    try {
        unlimited.allocate(std::size_t{1} << 60, 0, {5});
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("do not fit into the device's"));
        EXPECT_THAT(error.what(), Not(HasSubstr("limit")));
    }
}

TEST(OutOfMemoryMessage, SpeaksOfMemoryAloneToWhoUsesTheAllocatorAlone) {
    const auto training =
        ContainsRegex("batch|model|recompute|parameters|gradients|optimizer|activations|workspace|inputs|categor");
    for (const Tag tag : {Tag{}, Tag{.category = 3}}) {
        for (const std::size_t limit : {std::size_t{0}, std::size_t{64'000'000}}) {
            DeviceMemory memory(make_simulated_host_driver(), {.limit = limit});
            memory.allocate(1000, 0, tag);
            const MemoryReport report = report_of(memory, std::size_t{1} << 60, tag);
            EXPECT_THAT(report.to_string(), AllOf(HasSubstr("What would help"), Not(training)));
            EXPECT_THAT(OutOfMemory(report).what(), Not(training));
        }
    }
}

TEST(OutOfMemoryMessage, HasTheNamesAndTheAdviceOfItsUser) {
    const MemoryOptions options{
        .limit = 64'000'000,
        .categories = {{"weights"}, {"key-value cache"}},
        .advise = [](const MemoryReport& report) { return "shorten the prompt by " + format_bytes(report.requested); }};
    DeviceMemory memory(make_simulated_host_driver(), options);
    memory.allocate(3'000'000, 0, {.category = 0});
    memory.allocate(10'048, 0, {.category = 6});
    memory.allocate(20'032, 0, {});
    const MemoryReport report = report_of(memory, 100'000'000, {.category = 1, .path = memory.intern("blocks.3")});
    const std::string text = report.to_string();
    EXPECT_THAT(text, HasSubstr(": 100000000 bytes for key-value cache of blocks.3.\n"));
    EXPECT_EQ(figure(text, "weights"), 3'000'000u);
    EXPECT_EQ(figure(text, "key-value cache"), 0u);
    EXPECT_EQ(figure(text, "(no category)"), 30'080u) << "that have no name";
    EXPECT_THAT(text, EndsWith("What would help: shorten the prompt by 100.0 MB.\n"));
    EXPECT_THAT(OutOfMemory(report).what(), AllOf(HasSubstr("for key-value cache of blocks.3 do not"),
                                                  EndsWith("; shorten the prompt by 100.0 MB")));
    EXPECT_THAT(report_of(memory, 100'000'000, {.category = 6}).to_string(), HasSubstr(": 100000000 bytes.\n"));
}

TEST(OutOfMemoryMessage, LeavesAdviceOutThatNobodyGives) {
    DeviceMemory memory(make_simulated_host_driver(), {.limit = 64'000'000, .advise = {}});
    const MemoryReport report = report_of(memory, 100'000'000, {});
    EXPECT_THAT(report.to_string(), Not(HasSubstr("What would help")));
    EXPECT_THAT(OutOfMemory(report).what(), EndsWith("(0 B live, 0 B reserved)"));
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

}  // namespace out_of_memory_test
}  // namespace headroom::memory::test
