// Free pages are moved to where they are needed: before new ones are taken beyond the slack, and before a request
// fails.
#include <headroom/memory/device_memory.hpp>

#include <cstring>
#include <random>

#include <headroom/tests/memory/driver_case.hpp>
#include <headroom/tests/support/seed.hpp>

namespace headroom::memory::test {
namespace moving_pages_test {

constexpr Tag kTag{};

class MovingPagesTest : public DriverTest {
  protected:
    /// Blocks of a page each; those with even numbers are given back.
    std::vector<Allocation> make_checkerboard(DeviceMemory& memory, int pages, StreamId streams = 1) {
        std::vector<Allocation> blocks;
        for (int i = 0; i < pages; ++i) {
            blocks.push_back(memory.allocate(granule(), static_cast<StreamId>(i) % streams, kTag));
            if (properties().touchable) std::memset(blocks.back().data, i, granule());
        }
        std::vector<Allocation> kept;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (i % 2 == 0) {
                memory.deallocate(blocks[i].handle);
            } else {
                kept.push_back(blocks[i]);
            }
        }
        return kept;
    }
    void expect_untouched(const std::vector<Allocation>& kept) {
        if (!properties().touchable) return;
        for (std::size_t i = 0; i < kept.size(); ++i) {
            const auto* bytes = reinterpret_cast<const unsigned char*>(kept[i].data);
            EXPECT_EQ(bytes[0], 2 * i + 1);
            EXPECT_EQ(std::memcmp(bytes, bytes + 1, granule() - 1), 0);
        }
    }
};

TEST_P(MovingPagesTest, ServeALargeRequestFromACheckerboardWithoutNewPages) {
    for (const StreamId streams : {1u, 3u, 5u}) {
        DeviceMemory memory(driver(), {.limit = 64 * granule()});
        const std::vector<Allocation> kept = make_checkerboard(memory, 64, streams);
        const std::size_t created = log().peak_created;
        const Allocation large = memory.allocate(32 * granule(), 0, kTag);
        if (properties().touchable) std::memset(large.data, 255, large.bytes);
        expect_untouched(kept);
        EXPECT_EQ(log().peak_created, created);
        EXPECT_EQ(memory.statistics().reserved, 64 * granule());
        EXPECT_THROW(memory.allocate(1, 0, kTag), OutOfMemory) << "the limit is exact";
        memory.deallocate(large.handle);
        EXPECT_NO_THROW(memory.allocate(1, 0, kTag));
    }
}

TEST_P(MovingPagesTest, MoveNoMoreThanAreNeeded) {
    DeviceMemory memory(driver(), {.limit = 64 * granule()});
    make_checkerboard(memory, 64);
    const std::size_t mapped = log().mapped.size();
    memory.allocate(4 * granule(), 0, kTag);
    EXPECT_EQ(log().mapped.size(), mapped);
    std::size_t free = 0;
    for (const BlockInfo& block : memory.snapshot().blocks) free += block.live ? 0 : block.bytes;
    EXPECT_EQ(free, 28 * granule());
}

TEST_P(MovingPagesTest, AreMovedInsteadOfNewOnesBeyondTheSlack) {
    DeviceMemory memory(driver(), {.slack = 0});
    make_checkerboard(memory, 32);  // 32 pages at the peak, 16 of them live
    memory.allocate(16 * granule(), 0, kTag);
    EXPECT_EQ(log().peak_created, 32 * granule());
    memory.allocate(2 * granule(), 0, kTag);
    EXPECT_EQ(log().peak_created, 34 * granule());
}

TEST_P(MovingPagesTest, AreLeftWhereTheyAreWithinTheSlack) {
    DeviceMemory memory(driver(), {.slack = 0.5});
    make_checkerboard(memory, 32);
    const auto waits = log().synchronizes;
    memory.allocate(16 * granule(), 0, kTag);
    EXPECT_EQ(log().peak_created, 48 * granule());
    EXPECT_EQ(log().synchronizes, waits) << "the host waits only when pages move";
}

TEST_P(MovingPagesTest, KeepReservedCloseToWhatIsLiveUnderFragmentation) {
    std::mt19937 random(headroom::test::random_seed());
    constexpr double kSlack = 1.0 / 16;
    DeviceMemory memory(driver(), {.slack = kSlack});
    std::vector<Block*> blocks;
    std::size_t live = 0;
    std::vector<std::size_t> sizes;
    for (int step = 0; step < 2000; ++step) {
        // Sizes drift, so that old gaps don't fit; whole pages, so that no page is used in part.
        const std::size_t pages = 1 + random() % (1 + static_cast<std::size_t>(step) / 200);
        while (!blocks.empty() && (live + pages > 100 || random() % 4 == 0)) {
            const std::size_t i = random() % blocks.size();
            memory.deallocate(blocks[i]);
            live -= sizes[i];
            std::swap(blocks[i], blocks.back());
            std::swap(sizes[i], sizes.back());
            blocks.pop_back();
            sizes.pop_back();
        }
        blocks.push_back(memory.allocate(pages * granule(), random() % 2, kTag).handle);
        sizes.push_back(pages);
        live += pages;
        const MemoryStatistics statistics = memory.statistics();
        ASSERT_LE(static_cast<double>(statistics.reserved),
                  static_cast<double>(statistics.peak_allocated) * (1 + kSlack) + static_cast<double>(granule()));
    }
}

TEST_P(MovingPagesTest, FillAHoleBetweenTwoFreeBlocksWithPagesOfEither) {
    // Five free pages, a hole of one, ten free pages: enough for 12 pages, though no page lies elsewhere.
    DeviceMemory memory(driver(), {.limit = 20 * granule()});
    const Allocation five = memory.allocate(5 * granule(), 0, kTag);
    const Allocation hole = memory.allocate(granule(), 0, kTag);
    const Allocation ten = memory.allocate(10 * granule(), 0, kTag);
    memory.allocate(granule(), 0, kTag);
    memory.deallocate(hole.handle);
    memory.trim();
    memory.allocate(4 * granule(), 0, kTag);  // all that is left of the limit; the hole stays
    memory.deallocate(five.handle);
    memory.deallocate(ten.handle);
    EXPECT_THROW(memory.allocate(16 * granule(), 0, kTag), OutOfMemory);
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(12 * granule(), 0, kTag).handle));
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(15 * granule(), 0, kTag).handle));
}

TEST_P(MovingPagesTest, AreNotTakenFromABlockThatWillBePartOfTheRequest) {
    DeviceMemory memory(driver(), {.slack = 0});
    const std::size_t half = granule() / 2;
    const Allocation before = memory.allocate(granule(), 0, kTag);
    const Allocation hole = memory.allocate(3 * granule(), 0, kTag);
    const Allocation after = memory.allocate(2 * granule(), 0, kTag);
    memory.allocate(half, 0, kTag);
    const Allocation in_part = memory.allocate(3 * half, 0, kTag);
    memory.allocate(half, 0, kTag);
    const Allocation large = memory.allocate(7 * half, 0, kTag);
    memory.allocate(granule(), 0, kTag);
    memory.deallocate(hole.handle);
    memory.trim();
    memory.reset_peak();
    for (const Allocation& block : {in_part, after, before, large}) memory.deallocate(block.handle);
    // Three pages into the hole, beside `after`: that of `before`, so that the hole grows, that inside of `in_part`,
    // and one of `large`, which is larger than `after`.
    EXPECT_EQ(memory.allocate(5 * granule(), 0, kTag).data, hole.data);
    EXPECT_EQ(memory.statistics().reserved, 10 * granule());
}

/// A device whose address range is no larger than its memory.
std::unique_ptr<Driver> make_narrow(std::size_t pages) {
    SimulatedOptions options;
    options.properties = {.name = "narrow",
                          .granularity = 4096,
                          .alignment = 64,
                          .total_bytes = pages * 4096,
                          .address_bytes = pages * 4096,
                          .touchable = false};
    options.event_latency = 10;
    return make_simulated_driver(options);
}

TEST(AddressesThatRunOut, AreAddedTo) {
    constexpr std::size_t kPage = 4096;
    constexpr std::size_t kPages = 64;
    DriverLog log;
    DeviceMemory memory(std::make_unique<CheckedDriver>(make_narrow(kPages), log));
    std::vector<Block*> kept;
    // Each cycle leaves one page behind, in the midst of what was free: soon no stretch of addresses is large enough.
    for (std::size_t cycle = 0; cycle + 2 < kPages; ++cycle) {
        Block* const half = memory.allocate((kPages - cycle) / 2 * kPage, cycle % 3, kTag).handle;
        kept.push_back(memory.allocate(kPage, 0, kTag).handle);
        memory.deallocate(half);
        const std::size_t left = (kPages - cycle - 1) * kPage;
        try {
            memory.allocate(left + 1, 0, kTag);
            ADD_FAILURE() << "more than there is";
        } catch (const OutOfMemory& error) {
            ASSERT_EQ(error.report().largest_obtainable, left) << "cycle " << cycle;
        }
        memory.deallocate(memory.allocate(left, cycle % 3, kTag).handle);
    }
    EXPECT_GT(log.ranges.size(), 1u) << "the addresses did not run out";
    for (Block* block : kept) memory.deallocate(block);
    EXPECT_EQ(memory.snapshot().statistics.allocated, 0u);
    memory.trim();
    EXPECT_EQ(memory.statistics().reserved, 0u);
    EXPECT_EQ(log.ranges.size(), 1u) << "what was added is given up with its last page";
}

TEST(AddressesThatRunOut, AreNoReasonToForgetWhatIsCached) {
    DeviceMemory memory(make_narrow(64));
    std::vector<Block*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(memory.allocate(4096, 0, kTag).handle);
    for (Block* block : blocks) memory.deallocate(block);
    for (const std::size_t bytes : {std::size_t{65} * 4096, std::size_t{1} << 50, SIZE_MAX}) {
        try {
            memory.allocate(bytes, 0, kTag);
            FAIL() << "more than there are addresses";
        } catch (const OutOfMemory& error) {
            EXPECT_EQ(error.report().largest_obtainable, 64u * 4096);
        }
        for (Block*& block : blocks) block = memory.allocate(4096, 0, kTag).handle;
        for (Block* block : blocks) memory.deallocate(block);
    }
    EXPECT_NO_THROW(memory.deallocate(memory.allocate(64 * 4096, 0, kTag).handle));
}

TEST(AddressesThatRunOut, MustBeThereToBeginWith) {
    SimulatedOptions options;
    options.properties = {
        .name = "nowhere", .granularity = 4096, .alignment = 64, .total_bytes = 1 << 20, .address_bytes = 0};
    try {
        DeviceMemory memory(make_simulated_driver(options));
        FAIL() << "no block can have an address";
    } catch (const DeviceError& error) {
        EXPECT_STREQ(error.what(),
                     "nowhere: address_bytes is 0, less than a page of 4096 bytes; set it to the addresses that one "
                     "pool may reserve");
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, MovingPagesTest, all_drivers(), driver_name);

}  // namespace moving_pages_test
}  // namespace headroom::memory::test
