// Several threads share one allocator. ThreadSanitizer runs this too.
#include <headroom/memory/device_memory.hpp>

#include <cstring>
#include <random>
#include <thread>

#include <headroom/memory/buffer.hpp>
#include <headroom/tests/memory/driver_case.hpp>

namespace headroom::testing {
namespace {

class DeviceMemoryThreads : public DriverTest {};

/// Allocates, fills, checks and frees; each thread knows its own contents by its number.
void work(DeviceMemory& memory, StreamId stream, unsigned seed, std::size_t largest, bool touchable) {
    std::mt19937 random(seed + stream);
    const PathId path = memory.intern("thread." + std::to_string(stream));
    std::vector<Buffer> buffers(20);
    for (int step = 0; step < 10'000; ++step) {
        Buffer& buffer = buffers[random() % buffers.size()];
        if (touchable && buffer && buffer.bytes() > 0) {
            EXPECT_EQ(static_cast<StreamId>(buffer.data()[0]), stream);
            EXPECT_EQ(static_cast<StreamId>(buffer.data()[buffer.bytes() - 1]), stream);
        }
        buffer.reset();
        try {
            buffer = Buffer::allocate(memory, random() % largest, stream, {Category::activations, path});
        } catch (const OutOfMemory&) {
            continue;
        }
        if (touchable)
            std::memset(buffer.data(), static_cast<int>(stream), std::min<std::size_t>(buffer.bytes(), 4096));
        if (touchable && buffer.bytes() > 0) buffer.data()[buffer.bytes() - 1] = static_cast<std::byte>(stream);
        if (step % 1000 == 0) memory.trim();
        const MemoryStatistics statistics = memory.statistics();
        EXPECT_LE(statistics.allocated, statistics.peak_allocated);
    }
}

TEST_P(DeviceMemoryThreads, ShareOneAllocator) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    DeviceMemory memory(driver(), {.limit = 40 * granule()});
    std::vector<std::thread> threads;
    for (StreamId stream = 0; stream < 4; ++stream) {
        threads.emplace_back([&, stream] { work(memory, stream, seed, granule(), properties().touchable); });
    }
    for (std::thread& thread : threads) thread.join();
    const MemoryStatistics statistics = memory.statistics();
    EXPECT_EQ(statistics.allocated, 0u);
    EXPECT_EQ(statistics.requested, 0u);
    EXPECT_TRUE(memory.largest_paths().empty());
    memory.trim();
    EXPECT_EQ(memory.statistics().reserved, 0u);
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryThreads, all_drivers(), driver_name);

}  // namespace
}  // namespace headroom::testing
